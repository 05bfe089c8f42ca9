package group

import (
	"cmp"
	"slices"

	"godwit/internal/base"
	"godwit/internal/invariants"
)

// assignor is one way of dividing partitions among members. Each partition of a topic goes to one of those who subscribe to it.
type assignor struct {
	name   string
	assign func([]*seat)
}

// assignorsOf finds the assignors of the names, which are those of Kafka's; both for none. The first is for groups whose members
// have no wish.
func assignorsOf(names []string) []assignor {
	all := []assignor{{"uniform", assignUniform}, {"range", assignRange}}
	if len(names) == 0 {
		return all
	}
	out := make([]assignor, 0, len(names))
	for _, name := range names {
		for _, a := range all {
			if a.name == name {
				out = append(out, a)
			}
		}
	}
	invariants.Check(len(out) == len(names), "of the assignors %v only %d are known", names, len(out))
	return out
}

// seat is one member as an assignor sees it.
type seat struct {
	id       string
	instance string
	topics   []Topic     // that it subscribes to; ordered by ID
	old      []Partition // that it was assigned before; ordered
	parts    []Partition // that it is assigned now
}

func (s *seat) reads(p Partition) bool {
	i, ok := slices.BinarySearchFunc(s.topics, p, func(t Topic, p Partition) int { return slices.Compare(t.ID[:], p.Stream[:]) })
	return ok && p.Index >= 0 && int(p.Index) < s.topics[i].Partitions
}

// alike reports whether all members subscribe to the same topics.
func alike(seats []*seat) bool {
	return !slices.ContainsFunc(seats, func(s *seat) bool { return !slices.Equal(s.topics, seats[0].topics) })
}

// assignRange gives each member of each topic one run of its partitions, in the order of the members: static ones by instance,
// then the others by ID. Members of topics with the same number of partitions and the same subscribers get the same numbers.
func assignRange(seats []*seat) {
	order := slices.Clone(seats)
	slices.SortFunc(order, func(a, b *seat) int {
		if (a.instance == "") != (b.instance == "") {
			return cmp.Compare(b.instance, a.instance) // none comes last
		}
		return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.id, b.id))
	})
	subscribers := map[base.StreamID][]*seat{}
	for _, s := range order {
		for _, t := range s.topics {
			subscribers[t.ID] = append(subscribers[t.ID], s)
		}
	}
	done := map[base.StreamID]bool{}
	for _, s := range order {
		for _, t := range s.topics {
			if done[t.ID] {
				continue
			}
			done[t.ID] = true
			of := subscribers[t.ID]
			next := 0
			for i, m := range of {
				n := t.Partitions / len(of)
				if i < t.Partitions%len(of) {
					n++
				}
				for ; n > 0; n-- {
					m.parts = append(m.parts, Partition{Stream: t.ID, Index: int32(next)})
					next++
				}
			}
		}
	}
}

// assignUniform gives all members as equal a number of partitions as their subscriptions allow, and moves few of them.
func assignUniform(seats []*seat) {
	if len(seats) == 0 {
		return
	}
	if alike(seats) {
		assignAlike(seats)
		return
	}
	newBalance(seats).assign()
}

// assignAlike is for members with the same subscription: their numbers of partitions differ by one at most. A member keeps what it
// had, up to its quota; those that had more than others keep the one more that does not go evenly.
func assignAlike(seats []*seat) {
	total := 0
	for _, t := range seats[0].topics {
		total += t.Partitions
	}
	least, more := total/len(seats), total%len(seats)
	taken := make(map[Partition]struct{}, total)
	for _, s := range seats {
		for _, p := range s.old {
			if _, dup := taken[p]; !dup && s.reads(p) && len(s.parts) <= least {
				s.parts = append(s.parts, p)
				taken[p] = struct{}{}
			}
		}
	}
	quotas := make([]int, len(seats))
	for i, s := range seats {
		quotas[i] = least
		if len(s.parts) > least && more > 0 {
			quotas[i]++
			more--
		}
	}
	for i, s := range seats {
		if quotas[i] == least && more > 0 {
			quotas[i]++
			more--
		}
		for _, p := range s.parts[min(quotas[i], len(s.parts)):] {
			delete(taken, p)
		}
		s.parts = s.parts[:min(quotas[i], len(s.parts))]
	}
	at := 0
	give := func(p Partition) {
		for len(seats[at].parts) == quotas[at] {
			at++
		}
		seats[at].parts = append(seats[at].parts, p)
	}
	for _, t := range seats[0].topics {
		for i := range t.Partitions {
			p := Partition{Stream: t.ID, Index: int32(i)}
			if _, ok := taken[p]; !ok {
				give(p)
			}
		}
	}
}

// maxBalanceRounds bounds how often all topics are looked at for moves that make numbers more equal.
const maxBalanceRounds = 16

// balance divides partitions among members with different subscriptions.
type balance struct {
	topics      []Topic // those with most partitions for each subscriber first
	subscribers map[base.StreamID][]*seat
	owners      map[Partition]*seat
	load        map[*seat]int
}

func newBalance(seats []*seat) *balance {
	b := &balance{subscribers: map[base.StreamID][]*seat{}, owners: map[Partition]*seat{}, load: map[*seat]int{}}
	for _, s := range seats {
		for _, t := range s.topics {
			if b.subscribers[t.ID] == nil {
				b.topics = append(b.topics, t)
			}
			b.subscribers[t.ID] = append(b.subscribers[t.ID], s)
		}
	}
	slices.SortFunc(b.topics, func(x, y Topic) int {
		nx, ny := len(b.subscribers[x.ID]), len(b.subscribers[y.ID])
		return cmp.Or(cmp.Compare(y.Partitions*nx, x.Partitions*ny), cmp.Compare(nx, ny), slices.Compare(x.ID[:], y.ID[:]))
	})
	for _, s := range seats {
		for _, p := range s.old {
			if b.owners[p] == nil && s.reads(p) {
				b.give(p, s)
			}
		}
	}
	return b
}

// give takes a partition from who has it, if anybody, and gives it to s.
func (b *balance) give(p Partition, s *seat) {
	if old := b.owners[p]; old != nil {
		b.load[old]--
	}
	b.owners[p] = s
	b.load[s]++
}

// lightest is the subscriber with the fewest partitions, the first of several.
func (b *balance) lightest(id base.StreamID) *seat {
	return slices.MinFunc(b.subscribers[id], func(x, y *seat) int { return cmp.Compare(b.load[x], b.load[y]) })
}

func (b *balance) assign() {
	for _, t := range b.topics {
		for i := range t.Partitions {
			if p := (Partition{Stream: t.ID, Index: int32(i)}); b.owners[p] == nil {
				b.give(p, b.lightest(t.ID))
			}
		}
	}
	for range maxBalanceRounds {
		moved := false
		for _, t := range b.topics {
			moved = b.level(t) || moved
		}
		if !moved {
			break
		}
	}
	for _, t := range b.topics {
		for i := range t.Partitions {
			p := Partition{Stream: t.ID, Index: int32(i)}
			b.owners[p].parts = append(b.owners[p].parts, p)
		}
	}
}

// level moves partitions of one topic from those who have most to those who have least, as long as they differ by more
// than one.
func (b *balance) level(t Topic) (moved bool) {
	of := map[*seat][]Partition{}
	for i := range t.Partitions {
		p := Partition{Stream: t.ID, Index: int32(i)}
		of[b.owners[p]] = append(of[b.owners[p]], p)
	}
	for {
		var heaviest *seat
		for _, s := range b.subscribers[t.ID] {
			if len(of[s]) > 0 && (heaviest == nil || b.load[s] > b.load[heaviest]) {
				heaviest = s
			}
		}
		to := b.lightest(t.ID)
		if heaviest == nil || b.load[heaviest]-b.load[to] <= 1 {
			return moved
		}
		n := len(of[heaviest]) - 1
		p := of[heaviest][n]
		of[heaviest], of[to] = of[heaviest][:n], append(of[to], p)
		b.give(p, to)
		moved = true
	}
}
