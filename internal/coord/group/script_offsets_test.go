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
	return Partition{stream(name), int32(n)}
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
	switch a.verb {
	case "commit":
		s.commit(a)
	case "fetch":
		req := &FetchOffsetsRequest{Key: a.key(), All: a.flag("all")}
		for _, p := range a.list("p") {
			req.Partitions = append(req.Partitions, partitionArg(p))
		}
		for _, o := range s.offsets.Fetch(req).Offsets {
			s.say("%s: offset %d, epoch %d, %q", partitionText(o.Partition), o.Offset, o.Epoch, o.Metadata)
		}
	case "positions":
		p := partitionArg(a.str("p", ""))
		for k, offset := range s.offsets.Positions(p) {
			s.say("%s %s: %d", k.Namespace, k.Group, offset)
		}
		if k, offset, ok := s.offsets.Lowest(p); ok {
			s.say("lowest: %s at %d", k.Group, offset)
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
		s.journal([]Command{&StreamDeleted{stream(a.str("name", ""))}})
	case "expire":
		s.journal(s.c.Expire(s.now, streamName))
	case "describe":
		s.describe(s.c.Describe(a.key()))
	case "list":
		for _, l := range s.c.List(&ListRequest{Namespace: a.str("ns", "default"), States: a.list("states"), Types: a.list("types")}).Groups {
			s.say("%s: %s %s %q", l.Group, l.Type, l.State, l.ProtocolType)
		}
	case "checkpoint":
		s.offsets.Checkpoint(func(k, v []byte) {
			s.say("%q = %q", k, v)
			if v == nil {
				delete(s.stored, string(k))
			} else {
				s.stored[string(k)] = v
			}
		})
	default:
		s.t.Fatalf("unknown command %q", a.verb)
	}
}

func (s *script) commit(a args) {
	req := &CommitRequest{
		Key: a.key(), Generation: int32(a.num("gen", -1)), MemberID: a.str("m", ""), InstanceID: a.str("instance", ""), Retention: a.num("retention", -1),
		Classic: a.flag("old"),
	}
	for _, item := range a.list("at") {
		p, offset, _ := strings.Cut(item, ":")
		n, err := strconv.ParseInt(offset, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		metadata := a.str("meta", "")
		if n == math.MaxInt64 {
			metadata = strings.Repeat("x", s.opts.MaxMetadata+1)
		}
		req.Offsets = append(req.Offsets, CommitOffset{partitionArg(p), n, int32(a.num("epoch", -1)), metadata})
	}
	cmd, out := s.c.Commit(s.now, req)
	s.results(out.Err, out.Errs)
	if cmd != nil {
		s.journal([]Command{cmd})
	}
}

func (s *script) deleteOffsets(a args) {
	req := &DeleteOffsetsRequest{Key: a.key()}
	for _, p := range a.list("p") {
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
		s.say("%s, %s", d.State, errText(d.Err))
		return
	}
	s.say("%s, generation %d, %q %q, empty since %d", d.State, d.Generation, d.ProtocolType, d.Protocol, d.EmptySince)
	for _, m := range d.Members {
		s.say("  %s/%s client %s at %s, %d bytes of metadata, assignment %s", m.MemberID, m.InstanceID, m.ClientID, m.ClientHost, len(m.Metadata), assignmentText(m.Assignment))
	}
}
