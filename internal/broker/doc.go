// Package broker is what gateways call: streams and their logs, groups, producer IDs and the loss ledger, in no
// protocol's words. It turns each call into commands of the engine's shards, and knows how the
// calls span shards.
//
// Every failure is a *base.Error, or wraps one; gateways map its code to their protocol.
package broker
