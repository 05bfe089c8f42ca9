package group

// runTxn runs the commands of transactions. A guard has a name, under which it is kept.
func (s *script) runTxn(a args) {
	id, epoch := a.Num("id", 1), int16(a.Num("pepoch", 0))
	name := a.Str("guard", "")
	switch a.Verb {
	case "guard":
		g, verified, err := s.c.TxnGuard(s.now, a.key(), id, epoch)
		if err != nil {
			s.err(err)
			return
		}
		s.guards[name] = g
		s.out.Say("verified: %t", verified)
	case "txn-commit":
		if name == "" { // verified at once
			s.guards[name], _, _ = s.c.TxnGuard(s.now, a.key(), id, epoch)
		}
		cmd, out := s.c.CommitTxn(s.now, &TxnCommitRequest{CommitRequest: *s.commitArgs(a), ProducerID: id, Epoch: epoch, Guard: s.guards[name]})
		s.results(out.Err, out.Errs)
		if cmd != nil {
			s.journal([]Command{cmd})
		}
	case "txn-end":
		cmd := &EndTxnOffsets{Key: a.key(), ProducerID: id, Epoch: epoch, Version: int16(a.Num("version", 2)), Commit: a.Has("commit")}
		s.c.EndTxn(cmd)
		s.journal([]Command{cmd})
	}
}
