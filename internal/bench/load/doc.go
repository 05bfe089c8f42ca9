// Package load makes load and accounts for it: arrivals on a schedule, latency from the intended send time,
// and an audit that knows by sequence numbers what was lost, repeated or reordered.
//
// A session has producers, subscriptions with their consumers, and phases that all producers send together.
//
// Arrivals. An open loop decides before a phase begins when each message is due. A sender that is late, for
// whatever reason, sends all that became due meanwhile, as fast as it can; none is left out, and the latency of
// each runs from the moment it was due. A closed loop has no such moments: a message's latency runs from the moment
// the window had room for it.
//
// Where more messages are due than a sender can sensibly wake for, they are sent in small groups, up to tick late; that
// counts as latency as well.
//
// The end of a phase. When its time is over or its last message was sent, a phase waits for the messages
// still under way. It gives up when nothing was acknowledged for stallTimeout, or overrunTimeout after the
// end of its time: what is not acknowledged then has failed, with the time waited so far as its latency.
//
// Refusals. A message that the target or its client refuses has failed; sooner than quickly it has no latency, for a refusal that is
// quick would make the rest look quick.
//
// The audit. Message n of a producer has key n mod Keys, and its sequence number counts that key's messages over
// all phases. Of a subscription, producer and key it is known how far messages arrived, and which ones
// below that have not: memory grows with the gaps, not with the messages. Failed messages may arrive and may not: they
// are never lost. Lost is what was acknowledged and has not arrived; a duplicate arrived before, at any
// consumer of the subscription; disordered is what arrived, for the first time, after a later message of its key
// at the same consumer.
//
// Locks. A producer's mutex guards what acknowledgements touch, for they come from any goroutine; its sender takes it
// once per batch of returned slots. While a consumer's mutex is held, others may be taken: a ledger's, the
// subscription's or the session's, one at a time. No other two are held together, but for Session.phase, which
// comes before all.
package load
