package streams

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"godwit/internal/base"
)

// configured is a topology with what the metadata says of its topics.
type configured struct {
	view    uint64         // of the topics
	hash    uint64         // of the topics
	problem *MemberStatus  // nil: all topics are there and fit together
	create  []CreateTopic  // internal topics that are missing, by name
	subs    []part         // by ID; nil if source topics are missing or topics do not fit together
	decided map[string]int // partitions of internal topics
}

// part is a subtopology of which the number of tasks is known.
type part struct {
	id       string
	tasks    int
	stateful bool
	sources  []string // all topics that it reads, ordered
}

func (c *configured) ready() bool { return c.problem == nil }

// sub finds a subtopology; nil if there is none, or not yet.
func (c *configured) sub(id string) *part {
	i, ok := slices.BinarySearchFunc(c.subs, id, func(p part, id string) int { return strings.Compare(p.id, id) })
	if !ok {
		return nil
	}
	return &c.subs[i]
}

// fault is why a topology cannot run: as a status for the member, or as an error if it never can.
type fault struct {
	status *MemberStatus
	err    *base.Error
}

func incorrectly(format string, args ...any) *fault {
	return &fault{status: &MemberStatus{IncorrectlyPartitioned, fmt.Sprintf(format, args...)}}
}

func invalid(format string, args ...any) *fault {
	return &fault{err: base.Errorf(base.CodeInvalidTopology, format, args...)}
}

// planner finds out how many partitions a topology's topics must have. What there is counts before what is decided.
type planner struct {
	*Topology
	topic   func(name string) (Topic, bool)
	decided map[string]int
}

// configure holds a topology against the topics of its namespace. The error is of a topology that no topics could fit.
func configure(t *Topology, topic func(name string) (Topic, bool)) (*configured, *base.Error) {
	p := &planner{t, topic, map[string]int{}}
	out := &configured{hash: p.hash(), decided: p.decided}
	for _, step := range []func() *fault{p.checkSources, p.repartition, p.copartition, p.changelogs} {
		if f := step(); f != nil {
			out.problem = f.status
			return out, f.err
		}
	}
	create, f := p.missing()
	if f != nil {
		out.problem = f.status
		return out, f.err
	}
	for tasks, i := 0, 0; i < len(t.Subtopologies); i++ {
		s := &t.Subtopologies[i]
		n, _ := p.tasks(s)
		if tasks += n; tasks > maxTasks {
			return out, invalid("The topology has more than %d tasks: read topics of fewer partitions.", maxTasks).err
		}
		out.subs = append(out.subs, part{s.ID, n, len(s.Changelogs) > 0, s.reads()})
	}
	if out.create = create; len(create) > 0 {
		names := make([]string, len(create))
		for i := range create {
			names[i] = create[i].Name
		}
		out.problem = &MemberStatus{MissingInternalTopics, "Internal topics are missing: " + summary(names)}
	}
	return out, nil
}

// reads lists all topics that the subtopology reads, in order.
func (s *Subtopology) reads() []string {
	out := slices.Clone(s.Sources)
	for _, t := range s.Repartitions {
		out = append(out, t.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// source finds the subtopology that reads a topic; nil if none does.
func (t *Topology) source(topic string) *Subtopology {
	if t == nil {
		return nil
	}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		if slices.Contains(s.Sources, topic) || slices.ContainsFunc(s.Repartitions, func(i TopicInfo) bool { return i.Name == topic }) {
			return s
		}
	}
	return nil
}

// hash tells one state of the topics from another; 0 for none.
func (p *planner) hash() uint64 {
	names := map[string]struct{}{}
	for i := range p.Subtopologies {
		s := &p.Subtopologies[i]
		for _, name := range s.reads() {
			names[name] = struct{}{}
		}
		for _, t := range s.Changelogs {
			names[t.Name] = struct{}{}
		}
	}
	h, found := fnv.New64a(), false
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if t, ok := p.topic(name); ok {
			found = true
			h.Write(t.ID[:])
			io.WriteString(h, t.Name+"\x00"+strconv.Itoa(t.Partitions)+"\x00")
		}
	}
	if !found {
		return 0
	}
	return h.Sum64()
}

// partitions is the number of partitions of a topic that there is or that is decided on.
func (p *planner) partitions(name string) (int, bool) {
	if t, ok := p.topic(name); ok {
		return t.Partitions, true
	}
	n, ok := p.decided[name]
	return n, ok
}

func (p *planner) checkSources() *fault {
	var missing []string
	for i := range p.Subtopologies {
		for _, name := range p.Subtopologies[i].Sources {
			if _, ok := p.topic(name); !ok {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &fault{status: &MemberStatus{MissingSourceTopics, "Source topics " + summary(slices.Compact(missing)) + " are missing."}}
}

// repartition decides on the topics between subtopologies: as said, or as many partitions as the widest topic has that
// the writing subtopology reads.
func (p *planner) repartition() *fault {
	counts := map[string]int{}
	for i := range p.Subtopologies {
		for _, t := range p.Subtopologies[i].Repartitions {
			if t.Partitions != 0 {
				counts[t.Name] = int(t.Partitions)
			}
		}
	}
	for needed := true; needed; {
		needed = false
		progress := false
		for i := range p.Subtopologies {
			s := &p.Subtopologies[i]
			n := p.widest(s, counts)
			for _, sink := range s.Sinks {
				if _, ok := counts[sink]; ok {
					continue
				}
				if n > 0 {
					counts[sink], progress = n, true
				} else {
					needed = true
				}
			}
		}
		if needed && !progress {
			return invalid("Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be resolved.")
		}
	}
	for i := range p.Subtopologies {
		for _, t := range p.Subtopologies[i].Repartitions {
			if _, ok := counts[t.Name]; !ok {
				return invalid("Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used as a sink topic.")
			}
		}
	}
	maps.Copy(p.decided, counts)
	return nil
}

// widest is the largest number of partitions among the topics that a subtopology reads, as far as they are known; 0 if none is.
func (p *planner) widest(s *Subtopology, counts map[string]int) int {
	n := 0
	for _, t := range s.Repartitions {
		n = max(n, counts[t.Name])
	}
	for _, name := range s.Sources {
		if c, ok := p.partitions(name); ok {
			n = max(n, c)
		}
	}
	return n
}

// copartition gives repartition topics the number of partitions of the topics that they are joined with.
func (p *planner) copartition() *fault {
	fixed := map[string]bool{} // of repartition topics: whether their number is said
	for i := range p.Subtopologies {
		for _, t := range p.Subtopologies[i].Repartitions {
			fixed[t.Name] = t.Partitions != 0
		}
	}
	for i := range p.Subtopologies {
		s := &p.Subtopologies[i]
		for _, c := range s.Copartitions {
			names, f := s.copartitioned(c)
			if f == nil {
				f = p.enforce(names, fixed)
			}
			if f != nil {
				return f
			}
		}
	}
	return nil
}

// copartitioned lists the topics of a copartition group, ordered.
func (s *Subtopology) copartitioned(c Copartition) (names []string, f *fault) {
	for _, i := range c.Sources {
		if i < 0 || int(i) >= len(s.Sources) {
			return nil, invalid("A copartition group of subtopology %s names source topic %d of %d.", s.ID, i, len(s.Sources))
		}
		names = append(names, s.Sources[i])
	}
	for _, i := range c.Repartitions {
		if i < 0 || int(i) >= len(s.Repartitions) {
			return nil, invalid("A copartition group of subtopology %s names repartition source topic %d of %d.", s.ID, i, len(s.Repartitions))
		}
		names = append(names, s.Repartitions[i].Name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// enforce brings the topics of one copartition group to the same number of partitions: that of the topics that are not ours, or of
// those where it is said, or the largest.
func (p *planner) enforce(names []string, fixed map[string]bool) *fault {
	var internal, said, external []string
	for _, name := range names {
		isFixed, ok := fixed[name]
		switch {
		case !ok:
			external = append(external, name)
			continue
		case isFixed:
			said = append(said, name)
		}
		internal = append(internal, name)
	}
	n := 0
	for _, decisive := range [][]string{external, said} {
		if len(decisive) == 0 || n > 0 {
			continue
		}
		n, _ = p.partitions(decisive[0])
		if slices.ContainsFunc(decisive, func(name string) bool { c, _ := p.partitions(name); return c != n }) {
			return incorrectly("Following topics do not have the same number of partitions: [%s]", p.counts(decisive))
		}
	}
	if n == 0 {
		for _, name := range internal {
			c, _ := p.partitions(name)
			n = max(n, c)
		}
	}
	for _, name := range internal {
		if c, _ := p.partitions(name); fixed[name] && c != n {
			return incorrectly("Number of partitions [%d] of repartition topic [%s] doesn't match number of partitions [%d] of the source topic.", c, name, n)
		}
		p.decided[name] = n
	}
	return nil
}

func (p *planner) counts(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		n, _ := p.partitions(name)
		out[i] = fmt.Sprintf("%s=%d", name, n)
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// changelogs decides on the topics of stores: a partition for each task.
func (p *planner) changelogs() *fault {
	for i := range p.Subtopologies {
		s := &p.Subtopologies[i]
		n, ok := p.tasks(s)
		if !ok {
			return invalid("No source topics found for subtopology %s", s.ID)
		}
		for _, t := range s.Changelogs {
			p.decided[t.Name] = n
		}
	}
	return nil
}

// tasks is the number of tasks of a subtopology: the partitions of the widest topic that it reads.
func (p *planner) tasks(s *Subtopology) (n int, ok bool) {
	for _, name := range s.reads() {
		c, _ := p.partitions(name)
		n = max(n, c)
	}
	return n, n > 0
}

// missing lists the internal topics that there are not, by name. Those that there are must have the right number of partitions.
func (p *planner) missing() ([]CreateTopic, *fault) {
	create := map[string]CreateTopic{}
	for i := range p.Subtopologies {
		s := &p.Subtopologies[i]
		for _, t := range slices.Concat(s.Repartitions, s.Changelogs) {
			c := CreateTopic(t)
			if c.Partitions == 0 {
				c.Partitions = int32(p.decided[t.Name])
			}
			if c.Replicas == 0 {
				c.Replicas = -1
			}
			create[t.Name] = c
		}
	}
	var out []CreateTopic
	for _, name := range slices.Sorted(maps.Keys(create)) {
		c := create[name]
		t, ok := p.topic(name)
		switch {
		case !ok:
			out = append(out, c)
		case t.Partitions != int(c.Partitions):
			return nil, incorrectly("Existing topic %s has different number of partitions: expected %d, found %d", name, c.Partitions, t.Partitions)
		}
	}
	return out, nil
}

// summary names up to three topics.
func summary(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d additional topics", strings.Join(names[:shown], ", "), len(names)-shown)
}

// described is the topology with the numbers of partitions that are decided on, as operators see it.
func (t *Topology) described(c *configured) *Topology {
	if t == nil {
		return nil
	}
	out := &Topology{Epoch: t.Epoch}
	for _, s := range t.Subtopologies {
		s.Sources, s.Sinks = slices.Sorted(slices.Values(s.Sources)), slices.Sorted(slices.Values(s.Sinks))
		for _, list := range []*[]TopicInfo{&s.Changelogs, &s.Repartitions} {
			*list = slices.SortedFunc(slices.Values(*list), func(a, b TopicInfo) int { return strings.Compare(a.Name, b.Name) })
			for i := range *list {
				if info := &(*list)[i]; info.Partitions == 0 && c != nil && c.ready() {
					info.Partitions = int32(c.decided[info.Name])
				}
			}
		}
		out.Subtopologies = append(out.Subtopologies, s)
	}
	return out
}
