// Package state keeps what the shards' machines hold in memory as of their last checkpoint: one
// Pebble store per node, with keys prefixed by shard and without a log of its own.
package state
