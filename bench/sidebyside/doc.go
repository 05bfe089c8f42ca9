// Command sidebyside measures Godwit and Apache Kafka on one machine, in one run, round by round.
//
// It starts each broker as a child process in a scratch directory, drives it with Kafka's own
// performance tools and with readers and writers of its own, and takes what the broker cost from
// /proc. Three ceilings are measured beside the brokers, so that a figure can be judged: the disk
// (write and fdatasync of groups), the load tool (the same tool against a sink that stores nothing)
// and what else ran on the machine meanwhile.
//
// Words used throughout: a phase is one kind of measurement (disk, produce, read, idle, scale, many);
// a case is one variant of it (such as a batch size); a round repeats all cases for all brokers. MiB
// counts payload: records times their value size. All figures are medians over rounds, with the
// smallest and the largest beside them.
package main
