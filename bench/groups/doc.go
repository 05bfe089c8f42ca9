// Command groups measures rebalances: how long a group of many members takes until each has its partitions, and how long members
// whose partitions do not move see nothing while one more member comes and one goes.
//
//	go run ./bench/groups godwit=127.0.0.1:9092 kafka=127.0.0.1:9093
//
// It does so with both protocols on each of the brokers, in turn, and prints what it saw with the ratio to the last broker
// named. Members are franz-go clients with their defaults in one process: cooperative-sticky in the classic protocol, the uniform
// assignor in the consumer protocol. A producer writes to each partition ten times a second, so a gap below 0.1 s cannot be seen.
package main
