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
// With the build tag peers the same tape, and cases that go deeper, are played beside Apache Kafka itself, with a table of its own
// whose entries are choices, improvements and limits of Godwit's. interop/peers.sh does that; a Kafka that runs already, with the settings
// in kafka_test.go, saves its start:
//
//	GODWIT_PEER_KAFKA=kafka://127.0.0.1:9092 go test -tags peers -run TestKafka ./internal/difftest -args -play txn
//
// `go test ./internal/difftest -update` rewrites docs/differences*.md from the tables.
package difftest
