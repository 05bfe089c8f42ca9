// Package meta is the pure state machine of shard 0: namespaces, streams with their
// partitions and configuration, and the counters from which identifiers are handed out.
package meta
