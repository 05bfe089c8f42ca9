package group

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"godwit/internal/base"
)

// stream makes the ID of a stream of a script: its name, padded.
func stream(name string) (id base.StreamID) {
	copy(id[:], name)
	return id
}

// streamName is the inverse; streams that begin with "gone" do not exist any more.
func streamName(id base.StreamID) (string, bool) {
	name := strings.TrimRight(string(id[:]), "\x00")
	return name, !strings.HasPrefix(name, "gone")
}

// partitionArg reads name/number.
func partitionArg(text string) Partition {
	name, number, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(err)
	}
	return Partition{Stream: stream(name), Index: int32(n)}
}

func partitionText(p Partition) string {
	name, _ := streamName(p.Stream)
	return fmt.Sprintf("%s/%d", name, p.Index)
}

func partitionsText(ps []Partition) string {
	var out []string
	for _, p := range ps {
		out = append(out, partitionText(p))
	}
	return strings.Join(out, " ")
}

func (s *script) runOffsets(a args) {
	switch a.Verb {
	case "commit":
		s.commit(a)
	case "fetch":
		req := &FetchOffsetsRequest{Key: a.key(), All: a.Has("all"), Stable: a.Has("stable")}
		for _, p := range a.List("p") {
			req.Partitions = append(req.Partitions, partitionArg(p))
		}
		found := s.offsets.Fetch(req)
		for i, o := range found.Offsets {
			if found.Errs != nil && found.Errs[i] != nil {
				s.out.Say("%s: %s", partitionText(o.Partition), errText(found.Errs[i]))
				continue
			}
			s.out.Say("%s: offset %d, epoch %d, %q", partitionText(o.Partition), o.Offset, o.Epoch, o.Metadata)
		}
	case "positions":
		p := partitionArg(a.Str("p", ""))
		for k, offset := range s.offsets.Positions(p) {
			s.out.Say("%s %s: %d", k.Namespace, k.Group, offset)
		}
		if k, offset, ok := s.offsets.Lowest(p); ok {
			s.out.Say("lowest: %s at %d", k.Group, offset)
		}
	case "delete-offsets":
		s.deleteOffsets(a)
	case "delete-group":
		cmd, err := s.c.DeleteGroup(a.key())
		if err != nil {
			s.err(err)
			return
		}
		s.journal([]Command{cmd})
	case "stream-deleted":
		s.journal([]Command{&StreamDeleted{stream(a.Str("name", ""))}})
	case "expire":
		s.journal(s.c.Expire(s.now, streamName))
	case "describe":
		s.describe(s.c.Describe(a.key()))
	case "list":
		for _, l := range s.c.List(&ListRequest{Namespace: a.Str("ns", "default"), States: a.List("states"), Types: a.List("types")}).Groups {
			s.out.Say("%s: %s %s %q", l.Group, l.Type, l.State, l.ProtocolType)
		}
	case "checkpoint":
		s.offsets.Checkpoint(func(k, v []byte) {
			s.out.Say("%q = %q", k, v)
			if v == nil {
				delete(s.stored, string(k))
			} else {
				s.stored[string(k)] = v
			}
		})
	case "guard", "txn-commit", "txn-end":
		s.runTxn(a)
	default:
		s.t.Fatalf("unknown command %q", a.Verb)
	}
}

func (s *script) commit(a args) {
	req := s.commitArgs(a)
	cmd, out := s.c.Commit(s.now, req)
	s.results(out.Err, out.Errs)
	if cmd != nil {
		s.journal([]Command{cmd})
	}
}

func (s *script) commitArgs(a args) *CommitRequest {
	req := &CommitRequest{
		Key: a.key(), Generation: int32(a.Num("gen", -1)), MemberID: a.Str("m", ""), InstanceID: a.Str("instance", ""), Retention: a.Num("retention", -1),
		Classic: a.Has("old"),
	}
	for _, item := range a.List("at") {
		p, offset, _ := strings.Cut(item, ":")
		n, err := strconv.ParseInt(offset, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		metadata := a.Str("meta", "")
		if n == math.MaxInt64 {
			metadata = strings.Repeat("x", s.opts.MaxMetadata+1)
		}
		req.Offsets = append(req.Offsets, CommitOffset{partitionArg(p), n, int32(a.Num("epoch", -1)), metadata})
	}
	return req
}

func (s *script) deleteOffsets(a args) {
	req := &DeleteOffsetsRequest{Key: a.key()}
	for _, p := range a.List("p") {
		name, _, _ := strings.Cut(p, "/")
		req.Partitions = append(req.Partitions, NamedPartition{partitionArg(p), name})
	}
	cmd, out := s.c.DeleteOffsets(req)
	s.results(out.Err, out.Errs)
	if cmd != nil {
		s.journal([]Command{cmd})
	}
}

func (s *script) results(err *base.Error, errs []*base.Error) {
	if err != nil {
		s.err(err)
		return
	}
	for _, err := range errs {
		s.err(err)
	}
}

func (s *script) describe(d Description) {
	if d.Err != nil {
		s.out.Say("%s, %s", d.State, errText(d.Err))
		return
	}
	s.out.Say("%s, generation %d, %q %q, empty since %d", d.State, d.Generation, d.ProtocolType, d.Protocol, d.EmptySince)
	for _, m := range d.Members {
		s.out.Say("  %s/%s client %s at %s, %d bytes of metadata, assignment %s", m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, len(m.Metadata), assignmentText(m.Assignment))
	}
}
