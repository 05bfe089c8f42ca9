// Package load makes load and accounts for it: arrivals on a schedule, latency from the intended send time,
// and an audit that knows by sequence numbers what was lost, repeated or reordered.
package load
