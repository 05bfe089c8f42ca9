package group

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"regexp"
	"slices"

	"godwit/internal/base"
)

// expression is a subscribed regular expression of a group.
type expression struct {
	members int
	re      *regexp.Regexp
	known   bool // it was matched with the names of topics
	names   []string
}

// scan says when the names of topics were last matched with a group's expressions.
type scan struct {
	view  uint64
	at    int64 // Unix ms
	names int   // that there were
}

// rest is the ms for which topics are left alone after a look at all their names: one for each, so that a namespace with many
// topics and a group with an expression do not keep a shard busy. Kafka's is its largest, always.
func (s *scan) rest() int64 { return min(int64(s.names), maxScanRest) }

const maxScanRest = 10_000

// maxRegex is the length of the longest subscribed expression, bytes: matching costs its length for every byte of every topic's name.
const maxRegex = 1_024

// compile reads a subscribed expression, which matches whole names.
func compile(text string) (*regexp.Regexp, *base.Error) {
	if len(text) > maxRegex {
		return nil, base.Errorf(base.CodeInvalidRegex, "SubscribedTopicRegex has %d bytes, at most %d are allowed.", len(text), maxRegex)
	}
	if _, err := regexp.Compile(text); err != nil {
		return nil, base.Errorf(base.CodeInvalidRegex, "SubscribedTopicRegex `%s` is not a valid regular expression: %v.", text, err)
	}
	re, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, base.Errorf(base.CodeInvalidRegex, "SubscribedTopicRegex `%s` is not a valid regular expression: %v.", text, err)
	}
	return re, nil
}

// resolve matches the group's expressions with the names of topics: at once where one was not matched yet, else when
// topics have changed and not too often.
func (c *Coordinator) resolve(g *consumerGroup) {
	var todo []*expression
	stale := g.scan.view != c.view && c.now >= g.scan.at+g.scan.rest()
	for text, x := range g.regexes {
		if !stale && x.known {
			continue
		}
		if x.re == nil {
			x.re, _ = compile(text) // it was checked when it came
		}
		x.known, x.names = true, nil
		if x.re != nil {
			todo = append(todo, x)
		}
	}
	if len(todo) == 0 {
		return
	}
	n := 0
	for name := range c.topics.Names(g.key.Namespace) {
		n++
		for _, x := range todo {
			if x.re.MatchString(name) {
				x.names = append(x.names, name)
			}
		}
	}
	for _, x := range todo {
		slices.Sort(x.names)
	}
	g.looked = 0
	if stale || len(todo) == len(g.regexes) {
		g.scan = scan{c.view, c.now, n}
	}
}

// look brings the subscribed topics up to the view and asks for a new assignment if they have changed.
func (c *Coordinator) look(g *consumerGroup) {
	c.resolve(g)
	if g.looked == c.view {
		return
	}
	g.looked = c.view
	if h := c.hash(g); h != g.Hash {
		g.Hash = h
		g.bump()
	}
}

// hash tells one state of the subscribed topics from another, whatever their order; 0 for none.
func (c *Coordinator) hash(g *consumerGroup) (sum uint64) {
	add := func(name string) {
		t, ok := c.topics.ByName(g.key.Namespace, name)
		if !ok {
			return
		}
		h := fnv.New64a()
		h.Write(t.ID[:])
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(t.Partitions)))
		io.WriteString(h, t.Name)
		sum += h.Sum64()
	}
	for name := range g.names {
		add(name)
	}
	once := map[string]struct{}{}
	for _, x := range g.regexes {
		for _, name := range x.names {
			if _, dup := once[name]; !dup && g.names[name] == 0 {
				once[name] = struct{}{}
				add(name)
			}
		}
	}
	return sum
}

// subscribed lists the topics that a member subscribes to and that there are, by ID.
func (c *Coordinator) subscribed(g *consumerGroup, m *Consumer) []Topic {
	names := m.Topics
	if x := g.regexes[m.Regex]; m.Regex != "" && x != nil && len(x.names) > 0 {
		names = append(slices.Clone(names), x.names...)
		slices.Sort(names)
		names = slices.Compact(names)
	}
	out := make([]Topic, 0, len(names))
	for _, name := range names {
		if t, ok := c.topics.ByName(g.key.Namespace, name); ok {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b Topic) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return out
}

// readsTopic reports whether members subscribe to the topic.
func (c *Coordinator) readsTopic(g *consumerGroup, name string) bool {
	c.resolve(g)
	if g.names[name] > 0 {
		return true
	}
	for _, x := range g.regexes {
		if _, ok := slices.BinarySearch(x.names, name); ok {
			return true
		}
	}
	return false
}
