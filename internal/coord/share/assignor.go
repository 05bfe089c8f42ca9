package share

import (
	"cmp"
	"slices"

	"godwit/internal/invariants"
)

// seat is one member as the assignor sees it.
type seat struct {
	id     string
	topics []string    // ordered
	old    []Partition // ordered
	parts  []Partition // assigned
}

// assign is Kafka's assignor "simple" for share groups: partitions are spread evenly over members, and members over
// partitions where there are more of them, with as few moves as that allows. Members that all have the same subscription share
// all their partitions; otherwise, each topic is spread by itself over those who subscribe to it. partitions lists what can be
// assigned of a topic, by name and in order. The members are in order of their IDs.
//
// Where Kafka goes by the order of its hash tables, who gets one partition more is here who had most and has least.
func assign(members []*seat, partitions func(topic string) []Partition) {
	if len(members) == 0 {
		return
	}
	same := !slices.ContainsFunc(members, func(m *seat) bool { return !slices.Equal(m.topics, members[0].topics) })
	if same {
		var parts []Partition
		for _, t := range members[0].topics {
			parts = append(parts, partitions(t)...)
		}
		slices.SortFunc(parts, Partition.Compare)
		spread(members, parts)
	} else {
		subscribers := map[string][]*seat{}
		var topics []string
		for _, m := range members {
			for _, t := range m.topics {
				if subscribers[t] == nil {
					topics = append(topics, t)
				}
				subscribers[t] = append(subscribers[t], m)
			}
		}
		slices.Sort(topics)
		for _, t := range topics {
			spread(subscribers[t], partitions(t))
		}
	}
	for _, m := range members {
		slices.SortFunc(m.parts, Partition.Compare)
	}
}

// table is one spread under way: which of the members hold which of the partitions.
type table struct {
	members []*seat
	parts   []Partition
	sharing int                 // members of each partition, in the end
	quota   []int               // partitions of each member, in the end
	held    [][]int             // partitions of each member
	holders []int               // members of each partition, as many as it has
	edges   map[[2]int]struct{} // member, partition
}

// spread gives each of the partitions to the same number of members, and each member the same number of partitions or one less.
func spread(members []*seat, parts []Partition) {
	if len(parts) == 0 {
		return
	}
	t := &table{
		members: members, parts: parts,
		sharing: (len(members) + len(parts) - 1) / len(parts),
		quota:   make([]int, len(members)), held: make([][]int, len(members)), holders: make([]int, len(parts)),
		edges: map[[2]int]struct{}{},
	}
	old := t.old()
	t.setQuotas(old)
	t.keep(old)
	t.fill()
	for m, held := range t.held {
		invariants.Check(len(held) == t.quota[m], "share assignor: %s has %d partitions, not %d", members[m].id, len(held), t.quota[m])
		for _, p := range held {
			members[m].parts = append(members[m].parts, parts[p])
		}
	}
}

// old lists which of the partitions each member had.
func (t *table) old() [][]int {
	out := make([][]int, len(t.members))
	for m, s := range t.members {
		for _, p := range s.old {
			if i, ok := slices.BinarySearchFunc(t.parts, p, Partition.Compare); ok {
				out[m] = append(out[m], i)
			}
		}
	}
	return out
}

// setQuotas decides how many partitions each member gets. Those who had most get the one more that does not go evenly, and
// among them those who have least so far.
func (t *table) setQuotas(old [][]int) {
	total, n := t.sharing*len(t.parts), len(t.members)
	order := make([]int, n)
	for i := range order {
		order[i], t.quota[i] = i, total/n
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(old[b]), len(old[a])), cmp.Compare(len(t.members[a].parts), len(t.members[b].parts)))
	})
	for _, m := range order[:total%n] {
		t.quota[m]++
	}
}

// keep leaves members what they had, within quotas and sharing; the partitions with the fewest members first, since who else should
// have them.
func (t *table) keep(old [][]int) {
	had := make([]int, len(t.parts))
	for _, list := range old {
		for _, p := range list {
			had[p]++
		}
	}
	for m, list := range old {
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(had[a], had[b]) })
		for _, p := range list {
			if t.holders[p] < t.sharing && len(t.held[m]) < t.quota[m] {
				t.give(m, p)
			} else {
				had[p]--
			}
		}
	}
}

func (t *table) give(m, p int) {
	t.edges[[2]int{m, p}] = struct{}{}
	t.held[m] = append(t.held[m], p)
	t.holders[p]++
}

func (t *table) has(m, p int) bool {
	_, ok := t.edges[[2]int{m, p}]
	return ok
}

// fill gives the partitions that lack members to members that lack partitions, in turn.
func (t *table) fill() {
	var open []int
	for m := range t.members {
		if len(t.held[m]) < t.quota[m] {
			open = append(open, m)
		}
	}
	turn := 0
	for p := range t.parts {
		for t.holders[p] < t.sharing {
			turn %= len(open)
			at := slices.IndexFunc(open[turn:], func(m int) bool { return !t.has(m, p) })
			if at >= 0 {
				at += turn
			} else {
				at = slices.IndexFunc(open[:turn], func(m int) bool { return !t.has(m, p) })
			}
			if at < 0 {
				at = turn
				t.swap(open[at], p)
			} else {
				t.give(open[at], p)
			}
			turn = at + 1
			if m := open[at]; len(t.held[m]) == t.quota[m] {
				open = slices.Delete(open, at, at+1)
				turn = at
			}
		}
	}
}

// swap gives p, which all members with room have already, to another member, and one of that member's to u. There always is one: a full member
// has at least as many partitions as one with room, and p is not among them.
func (t *table) swap(u, p int) {
	for v := range t.members {
		if t.has(v, p) {
			continue
		}
		for i, x := range t.held[v] {
			if t.has(u, x) {
				continue
			}
			delete(t.edges, [2]int{v, x})
			t.held[v] = slices.Delete(t.held[v], i, i+1)
			t.holders[x]--
			t.give(u, x)
			t.give(v, p)
			return
		}
	}
	invariants.Check(false, "share assignor: partition %v finds no member", t.parts[p])
}
