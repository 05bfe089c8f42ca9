package streams

import (
	"encoding/binary"

	"godwit/internal/base"
	"godwit/internal/varint"
)

// commandVersion is the format of commands; the byte stands first.
const commandVersion = 1

// The kinds of commands, the byte behind the version.
const (
	kindUpdate = 1 + iota
	kindDeleteGroup
)

// AppendCommand writes a command behind dst: version, kind, then the fields in the order of the struct. Integers are zig-zag
// varints, lengths and counts unsigned varints, strings follow their length, hashes are 8 bytes big-endian. Tasks
// are grouped by subtopology; the partitions of a group are differences to the one before.
func AppendCommand(dst []byte, c Command) []byte {
	return c.appendTo(append(dst, commandVersion))
}

func (c *Update) appendTo(dst []byte) []byte {
	dst = c.Head.appendTo(appendKey(append(dst, kindUpdate), c.Key))
	if dst = varint.AppendBool(dst, c.Topology != nil); c.Topology != nil {
		dst = c.Topology.appendTo(dst)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Members)))
	for i := range c.Members {
		dst = c.Members[i].appendTo(dst)
	}
	return varint.AppendTexts(dst, c.Removed)
}

func (c *DeleteGroup) appendTo(dst []byte) []byte {
	return appendKey(append(dst, kindDeleteGroup), c.Key)
}

func (h Head) appendTo(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(h.Epoch))
	dst = binary.AppendVarint(dst, int64(h.AssignmentEpoch))
	dst = binary.AppendVarint(dst, h.AssignedAt)
	dst = binary.BigEndian.AppendUint64(dst, h.Hash)
	dst = binary.AppendVarint(dst, int64(h.Validated))
	dst = binary.AppendVarint(dst, int64(h.Standbys))
	return varint.AppendText(dst, h.Tags)
}

func (m *Member) appendTo(dst []byte) []byte {
	dst = varint.AppendText(dst, m.ID)
	dst = binary.AppendVarint(dst, int64(m.Epoch))
	dst = binary.AppendVarint(dst, int64(m.Previous))
	dst = append(dst, byte(m.Status))
	for _, s := range []string{m.Instance, m.Rack, m.ClientID, m.ClientHost} {
		dst = varint.AppendText(dst, s)
	}
	dst = binary.AppendVarint(dst, int64(m.Rebalance))
	dst = binary.AppendVarint(dst, int64(m.TopologyEpoch))
	dst = varint.AppendText(varint.AppendText(dst, m.Process), m.Endpoint.Host)
	dst = binary.AppendVarint(dst, int64(m.Endpoint.Port))
	dst = appendPairs(dst, m.Tags)
	return m.Target.appendTo(m.Revoking.appendTo(m.Assigned.appendTo(dst)))
}

func (t Tasks) appendTo(dst []byte) []byte {
	epochs := make([]int32, len(t.Active))
	for i, a := range t.Active {
		epochs[i] = a.Epoch
	}
	return appendTasks(appendTasks(dst, t.running(), epochs), t.Standby, nil)
}

// appendTasks writes an ordered list; epochs, if there are any, one behind each task.
func appendTasks(dst []byte, list []TaskID, epochs []int32) []byte {
	runs := 0
	for i := range list {
		if i == 0 || list[i].Subtopology != list[i-1].Subtopology {
			runs++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(runs))
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && list[i+n].Subtopology == list[i].Subtopology {
			n++
		}
		dst = varint.AppendText(dst, list[i].Subtopology)
		dst = binary.AppendUvarint(dst, uint64(n))
		last := int64(0)
		for end := i + n; i < end; i++ {
			dst = binary.AppendVarint(dst, int64(list[i].Partition)-last)
			if last = int64(list[i].Partition); epochs != nil {
				dst = binary.AppendVarint(dst, int64(epochs[i]))
			}
		}
	}
	return dst
}

func (t *Topology) appendTo(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(t.Epoch))
	dst = binary.AppendUvarint(dst, uint64(len(t.Subtopologies)))
	for i := range t.Subtopologies {
		dst = t.Subtopologies[i].appendTo(dst)
	}
	return dst
}

func (s *Subtopology) appendTo(dst []byte) []byte {
	dst = varint.AppendTexts(varint.AppendTexts(varint.AppendText(dst, s.ID), s.Sources), s.Sinks)
	for _, list := range [][]TopicInfo{s.Changelogs, s.Repartitions} {
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, t := range list {
			dst = binary.AppendVarint(varint.AppendText(dst, t.Name), int64(t.Partitions))
			dst = appendPairs(binary.AppendVarint(dst, int64(t.Replicas)), t.Configs)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Copartitions)))
	for _, c := range s.Copartitions {
		for _, list := range [][]int16{c.Sources, c.Repartitions} {
			dst = binary.AppendUvarint(dst, uint64(len(list)))
			for _, i := range list {
				dst = binary.AppendVarint(dst, int64(i))
			}
		}
	}
	return dst
}

func appendPairs(dst []byte, list []Pair) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, p := range list {
		dst = varint.AppendText(varint.AppendText(dst, p.Key), p.Value)
	}
	return dst
}

func appendKey(dst []byte, k Key) []byte {
	return varint.AppendText(varint.AppendText(dst, k.Namespace), k.Group)
}

// DecodeCommand reads what AppendCommand wrote. Anything else is a CodeCorruption error. The result shares
// no memory with b.
func DecodeCommand(b []byte) (Command, error) {
	if len(b) < 2 || b[0] != commandVersion {
		return nil, base.Errorf(base.CodeCorruption, "streams group command of %d bytes has an unknown version", len(b))
	}
	r := newReader(b[2:])
	var c Command
	switch b[1] {
	case kindUpdate:
		c = r.update()
	case kindDeleteGroup:
		c = &DeleteGroup{r.key()}
	default:
		return nil, base.Errorf(base.CodeCorruption, "streams group command has unknown kind %d", b[1])
	}
	if !r.Whole() {
		return nil, base.Errorf(base.CodeCorruption, "damaged streams group command of kind %d, %d bytes", b[1], len(b))
	}
	return c, nil
}

// reader takes fields off a slice; see varint.Reader for what damage does.
type reader struct{ varint.Reader }

func newReader(b []byte) *reader { return &reader{varint.Reader{B: b}} }

func (r *reader) update() *Update {
	c := &Update{Key: r.key(), Head: r.head()}
	if r.Bool() {
		c.Topology = r.topology()
	}
	for range r.Count(minMember) {
		c.Members = append(c.Members, r.member())
	}
	c.Removed = r.Texts()
	return c
}

func (r *reader) head() Head {
	h := Head{Epoch: r.Int32(), AssignmentEpoch: r.Int32(), AssignedAt: r.Int()}
	if b := r.Take(8); b != nil {
		h.Hash = binary.BigEndian.Uint64(b)
	}
	h.Validated, h.Standbys, h.Tags = r.Int32(), r.Int32(), r.Text()
	return h
}

// minMember is the least that a member takes, bytes.
const minMember = 20

func (r *reader) member() Member {
	m := Member{ID: r.Text(), Epoch: r.Int32(), Previous: r.Int32(), Status: Status(r.Byte())}
	m.Instance, m.Rack, m.ClientID, m.ClientHost = r.Text(), r.Text(), r.Text(), r.Text()
	m.Rebalance, m.TopologyEpoch, m.Process = r.Int32(), r.Int32(), r.Text()
	m.Endpoint.Host = r.Text()
	port := r.Int()
	m.Endpoint.Port = uint16(port)
	m.Tags = r.pairs()
	m.Assigned, m.Revoking, m.Target = r.tasks(), r.tasks(), r.tasks()
	if m.Status < Stable || m.Status > Unreleased || port != int64(m.Endpoint.Port) {
		r.Fail()
	}
	return m
}

func (r *reader) tasks() (t Tasks) {
	r.eachTask(func(id TaskID) { t.Active = append(t.Active, Task{id, r.Int32()}) }, 2)
	r.eachTask(func(id TaskID) { t.Standby = append(t.Standby, id) }, 1)
	return t
}

// eachTask reads a list of tasks that take at least size bytes each; fn reads what stands behind one.
func (r *reader) eachTask(fn func(TaskID), size int) {
	for range r.Count(2) {
		name, last := r.Text(), int64(0)
		for range r.Count(size) {
			last += r.Int()
			if last != int64(int32(last)) {
				r.Fail()
			}
			fn(TaskID{name, int32(last)})
		}
	}
}

func (r *reader) topology() *Topology {
	t := &Topology{Epoch: r.Int32()}
	for range r.Count(minSubtopology) {
		t.Subtopologies = append(t.Subtopologies, r.subtopology())
	}
	return t
}

// minSubtopology is the least that a subtopology takes, bytes.
const minSubtopology = 6

func (r *reader) subtopology() Subtopology {
	s := Subtopology{ID: r.Text(), Sources: r.Texts(), Sinks: r.Texts()}
	for _, list := range []*[]TopicInfo{&s.Changelogs, &s.Repartitions} {
		for range r.Count(4) {
			t := TopicInfo{Name: r.Text(), Partitions: r.Int32(), Replicas: r.int16()}
			t.Configs = r.pairs()
			*list = append(*list, t)
		}
	}
	for range r.Count(2) {
		var c Copartition
		for _, list := range []*[]int16{&c.Sources, &c.Repartitions} {
			for range r.Count(1) {
				*list = append(*list, r.int16())
			}
		}
		s.Copartitions = append(s.Copartitions, c)
	}
	return s
}

func (r *reader) int16() int16 {
	v := r.Int()
	if v != int64(int16(v)) {
		r.Fail()
	}
	return int16(v)
}

func (r *reader) pairs() (out []Pair) {
	for range r.Count(2) {
		out = append(out, Pair{r.Text(), r.Text()})
	}
	return out
}

func (r *reader) key() Key { return Key{Namespace: r.Text(), Group: r.Text()} }
