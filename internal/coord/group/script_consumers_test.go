package group

import (
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"godwit/internal/base"
)

// topicTable is a view of the topics of a script: partitions by name. A topic's ID is its name, padded.
type topicTable map[string]int

func (t topicTable) ByName(_, name string) (Topic, bool) {
	n, ok := t[name]
	return Topic{stream(name), name, n}, ok
}

func (t topicTable) ByID(id base.StreamID) (Topic, bool) {
	name, _ := streamName(id)
	return t.ByName("", name)
}

func (t topicTable) Names(string) iter.Seq[string] { return maps.Keys(t) }

func (s *script) runConsumers(a args) bool {
	switch a.Verb {
	case "topics":
		s.topics = maps.Clone(s.topics)
		for _, w := range a.List("add") {
			name, n, _ := strings.Cut(w, ":")
			s.topics[name], _ = strconv.Atoi(n)
		}
		for _, name := range a.List("drop") {
			delete(s.topics, name)
		}
		s.c.SetTopics(s.topics)
	case "consumer":
		s.consumer(a)
	case "group":
		s.group(s.c.DescribeConsumers(a.key()))
	case "check-fetch":
		req := &FetchOffsetsRequest{Key: a.key(), Epoch: int32(a.Num("epoch", -1))}
		if id, ok := a.Values["m"]; ok {
			req.MemberID = &id
		}
		s.err(s.c.CheckFetch(req))
	default:
		return false
	}
	return true
}

// partitionList reads topic/0/1,other/2.
func partitionList(list []string) (out []Partition) {
	for _, w := range list {
		parts := strings.Split(w, "/")
		for _, p := range parts[1:] {
			out = append(out, partitionArg(parts[0]+"/"+p))
		}
	}
	return out
}

// listText is its inverse.
func listText(list []Partition) string {
	var b strings.Builder
	for i, p := range list {
		name, _ := streamName(p.Stream)
		if i == 0 || list[i-1].Stream != p.Stream {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(name)
		}
		fmt.Fprintf(&b, "/%d", p.Index)
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

func ownedText(list []Owned) string {
	if len(list) == 0 {
		return "nothing"
	}
	var b strings.Builder
	for i, o := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s@%d", partitionText(o.Partition), o.Epoch)
	}
	return b.String()
}

func (s *script) consumer(a args) {
	optional := func(k string) *string {
		if v, ok := a.Values[k]; ok {
			return &v
		}
		return nil
	}
	req := &ConsumerHeartbeatRequest{
		Key: a.key(), MemberID: a.Str("m", ""), MemberIDRequired: !a.Has("v0"), Epoch: int32(a.Num("epoch", 0)),
		InstanceID: optional("instance"), Rack: optional("rack"), Regex: optional("regex"), Assignor: optional("assignor"),
		ClientID: "c", ClientHost: "/127.0.0.1", RebalanceTimeout: -1,
	}
	if req.Epoch == EpochJoin && !a.Has("bare") {
		req.RebalanceTimeout, req.OwnedSaid = 30_000, true
	}
	req.RebalanceTimeout = a.Num("rebalance", req.RebalanceTimeout)
	if _, ok := a.Values["topics"]; ok {
		req.Topics = append([]string{}, a.List("topics")...)
	}
	if a.Has("owned") {
		req.OwnedSaid, req.Owned = true, partitionList(a.List("owned"))
	}
	out, replies := s.c.ConsumerHeartbeat(s.now, req, a.Str("unique", "u"))
	if out.Err != nil {
		s.err(out.Err)
	} else {
		s.out.Say("member %s at epoch %d, next in %d", out.MemberID, out.Epoch, out.Interval)
		if out.Assigned {
			s.out.Say("has %s", listText(out.Assignment))
		}
	}
	s.replies(replies)
}

var memberStates = map[MemberState]string{Settled: "settled", Unrevoked: "unrevoked", Unreleased: "unreleased"}

func (s *script) group(d ConsumerDescription) {
	if d.Err != nil {
		s.err(d.Err)
		return
	}
	s.out.Say("%s, epoch %d, assignment epoch %d, %s", d.State, d.Epoch, d.AssignmentEpoch, d.Assignor)
	for _, m := range d.Members {
		s.out.Say("  %s/%s epoch %d after %d, %s, has %s", m.MemberID, m.InstanceID, m.Epoch, m.Previous, memberStates[m.State], ownedText(m.Assigned))
		if len(m.Revoking) > 0 {
			s.out.Say("    gives up %s", ownedText(m.Revoking))
		}
		if !slices.Equal(m.Target, partitionsOf(m.Assigned)) {
			s.out.Say("    should have %s", listText(m.Target))
		}
		if m.Classic != nil {
			s.out.Say("    speaks the classic protocol, session %d", m.Classic.Session)
		}
	}
}

// cooperative writes Kafka's ConsumerProtocolSubscription, version 1, with owned partitions.
func cooperative(topics []string, owned []Partition) []byte {
	b := subscription(topics...)
	b[1] = 1
	names := map[string][]int32{}
	for _, p := range owned {
		name, _ := streamName(p.Stream)
		names[name] = append(names[name], p.Index)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(names)))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(name))), name...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(names[name])))
		for _, i := range names[name] {
			b = binary.BigEndian.AppendUint32(b, uint32(i))
		}
	}
	return b
}

// assignmentText shows an assignment of Kafka's consumers in place of its bytes.
func assignmentText(b []byte) string {
	list, _, ok := parseAssignment(b)
	if !ok || len(b) < 10 {
		return strconv.Quote(string(b))
	}
	var out []Partition
	for _, p := range list {
		out = append(out, Partition{Stream: stream(p.topic), Index: p.index})
	}
	return listText(out)
}

// assignment writes Kafka's ConsumerProtocolAssignment of partitions 0/1/2 of one topic.
func assignment(topic, list string) []byte {
	var out []namedPartition
	for _, w := range strings.Split(list, "/") {
		n, err := strconv.Atoi(w)
		if err != nil {
			panic(err)
		}
		out = append(out, namedPartition{topic, int32(n)})
	}
	return appendAssignment(nil, 1, out)
}
