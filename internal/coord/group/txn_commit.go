package group

import "godwit/internal/base"

// guardWait is for how long a guard that nobody used is kept, ms. A commit that comes later has to be verified again.
const guardWait = 10 * 60_000

// TxnGuard is a leader's token for the positions that a transaction is about to commit in a group, as partlog.Guard is for its
// records. It is taken before the transaction's coordinator is asked whether the transaction is open and has the group, and is
// valid until the end of the transaction comes, or the group has another leader. So a late answer of the coordinator cannot leave
// positions aside whose transaction has ended, which nothing would end any more. Tokens are not kept over a
// restart: what was verified is verified again.
type TxnGuard struct {
	epoch    int16
	verified bool  // a commit came under it: the coordinator knows of the group, so the end will come
	since    int64 // Unix ms
}

// txnOf names a producer's transaction in a group.
type txnOf struct {
	Key
	producer int64
}

// TxnCommitRequest records positions that count when the producer's transaction is committed. Retention means nothing to it. A request without
// generation, member and instance may commit whatever members the group has: older clients do not say (KIP-447).
type TxnCommitRequest struct {
	CommitRequest
	ProducerID int64
	Epoch      int16
	Guard      *TxnGuard // of Coordinator.TxnGuard
}

// TxnGuard gives the token for a commit. If it is verified, the transaction's coordinator need not be asked. CodeFencedProducer
// stands for an epoch below that of the producer's open transaction in the group.
func (c *Coordinator) TxnGuard(now int64, k Key, producer int64, epoch int16) (g *TxnGuard, verified bool, err *base.Error) {
	c.advance(now)
	of := txnOf{k, producer}
	g = c.guards[of]
	switch {
	case g != nil && g.verified && g.epoch > epoch:
		return nil, false, base.Errorf(base.CodeFencedProducer, "producer %d has epoch %d in group %q; the commit came with epoch %d", producer, g.epoch, k.Group, epoch)
	case g == nil || g.epoch != epoch:
		g = &TxnGuard{epoch: epoch, since: c.now}
		c.guards[of] = g
	}
	return g, g.verified, nil
}

// DropGuard gives a token back that the transaction's coordinator did not confirm.
func (c *Coordinator) DropGuard(k Key, producer int64, g *TxnGuard) {
	if of := (txnOf{k, producer}); c.guards[of] == g && !g.verified {
		delete(c.guards, of)
	}
}

// CommitTxn is Commit for a transaction. CodeNotReady says that the guard is not valid any more: take another one, and ask the
// transaction's coordinator again, who knows whether the transaction is over. A commit does not keep a member's session.
func (c *Coordinator) CommitTxn(now int64, req *TxnCommitRequest) (*TxnCommitOffsets, CommitResponse) {
	c.advance(now)
	if g := c.guards[txnOf{req.Key, req.ProducerID}]; g == nil || g != req.Guard || g.epoch != req.Epoch {
		return nil, CommitResponse{Err: base.Errorf(base.CodeNotReady, "the transaction of producer %d has to be verified again: try again", req.ProducerID)}
	}
	in := req.CommitRequest
	in.transactional = true
	if err := c.checkCommit(&in); err != nil {
		if err.Code == base.CodeUnknownGroup && !c.taken(req.Key) || err.Code == base.CodeStaleMember {
			err = base.Errorf(base.CodeIllegalGeneration, "%s", err.Msg) // the only word that these clients have for it
		}
		return nil, CommitResponse{Err: err}
	}
	cmd := &TxnCommitOffsets{Key: req.Key, ProducerID: req.ProducerID, Epoch: req.Epoch, Time: c.now}
	out := CommitResponse{}
	cmd.Offsets, out.Errs = c.acceptable(req.Offsets)
	if len(cmd.Offsets) == 0 {
		return nil, out
	}
	req.Guard.verified = true
	c.revive(req.Key)
	return cmd, out
}

// EndTxn notes that the end of a transaction is about to be journaled: no commit that was verified before may follow. It does so in any case, also
// if nothing is kept aside as yet, since a commit may be in flight.
func (c *Coordinator) EndTxn(cmd *EndTxnOffsets) {
	of := txnOf{cmd.Key, cmd.ProducerID}
	if g := c.guards[of]; g != nil && (g.epoch < cmd.Epoch || g.epoch == cmd.Epoch && cmd.Version < 2) {
		delete(c.guards, of)
	}
}

// expireGuards forgets guards that nobody came back with.
func (c *Coordinator) expireGuards() {
	for of, g := range c.guards {
		if !g.verified && c.now-g.since >= guardWait {
			delete(c.guards, of)
		}
	}
}
