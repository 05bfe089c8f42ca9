// Package difftest plays the same tape of Kafka requests against Godwit and against kfake, franz-go's fake broker, and wants
// every difference between their answers explained in a table.
//
// Two brokers that were written apart rarely share a mistake. Where they differ, Apache Kafka decides who is right: the
// table says so for every entry, and a difference without an entry fails the test, as does an entry that no run meets
// any more.
//
// What has to differ is made equal before comparing: identifiers, ports, node IDs, leader epochs, times of the
// broker's clock, and the order of lists. Each case has topics and groups of its own and is played at the lowest, the
// highest and a middle version of its API that both brokers serve.
//
// `go test ./internal/difftest -update` rewrites docs/differences.md from the table.
package difftest
