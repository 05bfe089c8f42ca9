package group

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
)

// A band is one group whose members speak both protocols and know only what they were answered. Answers are held until the
// changes on which they rest are committed; they, the changes and the leader may be lost.
type band struct {
	t       *rapid.T
	opts    Options
	offsets *Offsets
	c       *Coordinator
	topics  topicTable
	now     int64
	flights []*bandFlight // in the journal, not committed
	tokens  uint64
	players []*player
	waiting map[uint64]*player
	epoch   int32 // of the group, as committed
	leaders int   // that there were
	loose   bool  // classic memberships were not saved, and go with the coordinator
	quiet   bool  // no more changes: answers arrive, entries commit
}

// bandFlight is one entry with those who wait for it.
type bandFlight struct {
	commands []Command
	replies  []Reply
	done     []func(lost bool)
}

// player is one process.
type player struct {
	b        *band
	name     string
	instance string
	classic  bool // it speaks the classic protocol, and gives up everything before it joins
	gone     bool // it was killed
	busy     bool // it waits for an answer

	id       string
	lives    int
	epoch    int32 // or generation; 0: not a member
	topics   []string
	regex    string
	changes  int // of its subscription
	told     int // how many of them the group knows
	assignor string
	rejoin   bool // of the classic protocol: was told so
	synced   bool
	roster   []JoinedMember
	leader   int // of the last join

	owned   []Partition // what it works on; ordered
	giving  []Partition // of these, what it was told to give up
	lease   int64       // Unix ms until which it may work on it
	since   int64       // Unix ms of the first request since it was last heard
	limit   int64       // Unix ms until which it has given up what it was told to
	unheard bool        // an answer was lost: it says all again
}

const bandSession, bandRebalance = 6_000, 8_000

var bandKey = Key{Namespace: "default", Group: "g"}

func newBand(t *rapid.T) *band {
	b := &band{t: t, opts: DefaultOptions(), offsets: NewOffsets(), topics: topicTable{"t": 3, "u": 2}, now: 1, waiting: map[uint64]*player{}}
	b.opts.InitialDelay, b.opts.NewMemberWait = 0, 5_000
	b.opts.Consumer.Defaults = map[string]string{
		"consumer.session.timeout.ms": fmt.Sprint(bandSession), "consumer.heartbeat.interval.ms": "1000",
		"consumer.assignment.interval.ms": rapid.SampledFrom([]string{"0", "1000"}).Draw(t, "interval"),
	}
	b.opts.Consumer.Migration = rapid.SampledFrom([]Migration{MigrationBidirectional, MigrationBidirectional, MigrationUpgrade, MigrationDisabled}).Draw(t, "migration")
	for _, name := range []string{"c0", "c1", "c2", "s0", "k0", "k1", "z0"} {
		p := &player{b: b, name: name, topics: []string{"t"}, classic: name[0] == 'k' || name[0] == 'z'}
		if name[0] == 's' || name[0] == 'z' {
			p.instance = "i" + name
		}
		b.players = append(b.players, p)
	}
	b.lead()
	return b
}

func (b *band) lead() {
	for _, p := range b.players {
		if b.loose && p.classic {
			p.lease = 0
		}
	}
	b.loose = false
	b.leaders++
	b.c = NewCoordinator(b.opts, b.offsets, b.now)
	b.c.SetTopics(b.topics)
}

// written holds what a call returned until what it changed is committed. rests says that it may rest on changes in flight.
func (b *band) written(replies []Reply, rests bool, done func(lost bool)) {
	b.c.Check()
	commands := b.c.Changes()
	switch {
	case len(commands) > 0:
		f := &bandFlight{commands: commands, replies: replies}
		if done != nil {
			f.done = append(f.done, done)
		}
		b.flights = append(b.flights, f)
	case rests && len(b.flights) > 0:
		f := b.flights[len(b.flights)-1]
		f.replies = append(f.replies, replies...)
		f.done = append(f.done, done)
	default:
		b.deliver(replies)
		if done != nil {
			done(false)
		}
	}
	if b.quiet {
		b.commit(len(b.flights))
	}
}

// commit settles the first entries.
func (b *band) commit(n int) {
	for range n {
		f := b.flights[0]
		b.flights = b.flights[1:]
		for _, cmd := range f.commands {
			b.offsets.Apply(cmd)
			switch cmd.(type) {
			case *DropConsumers, *DeleteGroup, *SaveGroup:
				b.epoch = 0
			}
		}
		b.offsets.Check()
		if s := b.offsets.saved(bandKey); s != nil {
			if s.head.Epoch < b.epoch {
				b.t.Fatalf("the group's epoch fell from %d to %d", b.epoch, s.head.Epoch)
			}
			b.epoch = s.head.Epoch
		}
		b.deliver(f.replies)
		for _, fn := range f.done {
			fn(false)
		}
	}
}

// lose ends all that is in flight as a failed write does. A disk that is full, other than one that fails, leaves the coordinator, unless
// that has gone ahead of what is saved.
func (b *band) lose() {
	lost, err := b.flights, base.Errorf(base.CodeStorage, "lost")
	b.flights = nil
	full, fresh := rapid.Bool().Draw(b.t, "full"), false
	for _, f := range lost {
		binding := Binding(f.commands)
		if (binding || !full) && !fresh {
			fresh = true
			b.resign(err)
		}
		b.loose = b.loose || !fresh && !binding
		b.deliver(Failed(f.replies, err))
		for _, fn := range f.done {
			fn(true)
		}
	}
}

func (b *band) resign(err *base.Error) {
	replies := b.c.Resign(err)
	b.lead()
	b.deliver(replies)
}

// restart makes a new leader out of what is committed; snapshot takes that through a checkpoint.
func (b *band) restart(snapshot bool) {
	b.commit(rapid.IntRange(0, len(b.flights)).Draw(b.t, "kept"))
	err := base.Errorf(base.CodeNotReady, "moved")
	lost := b.flights
	b.flights = nil
	replies := b.c.Resign(err)
	if snapshot {
		fresh := NewOffsets()
		for k := range b.offsets.groups {
			b.offsets.Touch(k)
		}
		b.offsets.Checkpoint(func(k, v []byte) {
			if v != nil {
				if err := fresh.Restore(k, v); err != nil {
					b.t.Fatal(err)
				}
			}
		})
		b.offsets = fresh
	}
	b.lead()
	b.deliver(replies)
	for _, f := range lost {
		b.deliver(Failed(f.replies, err))
		for _, fn := range f.done {
			fn(true)
		}
	}
}

// Touch marks all that is known of a group for the next checkpoint.
func (o *Offsets) Touch(k Key) {
	h := o.groups[k]
	if h.record != nil {
		o.dirty[dirtyKey{Key: k, record: true}] = struct{}{}
	}
	if h.consumers != nil {
		o.dirty[dirtyKey{Key: k, consumers: true}] = struct{}{}
		for id := range h.consumers.members {
			o.dirty[dirtyKey{Key: k, consumers: true, member: id}] = struct{}{}
		}
	}
}

func (b *band) deliver(replies []Reply) {
	for _, r := range replies {
		p := b.waiting[r.Token]
		if p == nil {
			continue // its process was killed meanwhile
		}
		delete(b.waiting, r.Token)
		p.busy = false
		if b.dropped() {
			p.unheard = true
			continue
		}
		switch r := r.Response.(type) {
		case *JoinResponse:
			p.joined(r)
		case *SyncResponse:
			p.hasSynced(r)
		case *LeaveResponse:
			p.forget()
		}
	}
	b.audit()
}

func (b *band) dropped() bool {
	return !b.quiet && rapid.IntRange(0, 9).Draw(b.t, "dropped") == 0
}

// audit holds that no partition has two members, each of which may work on it by what it was told.
func (b *band) audit() {
	owners := map[Partition]*player{}
	for _, p := range b.players {
		if p.gone || b.now >= p.lease {
			continue
		}
		for _, at := range p.owned {
			if o := owners[at]; o != nil {
				b.t.Fatalf("%v has two members: %s (%s at %d) and %s (%s at %d)", at, o.name, o.id, o.epoch, p.name, p.id, p.epoch)
			}
			owners[at] = p
		}
	}
}

func (p *player) forget() {
	p.epoch, p.owned, p.giving, p.synced, p.rejoin, p.roster = 0, nil, nil, false, false, nil
	if p.classic {
		p.id = ""
	}
}

// act does what a process does next.
func (p *player) act() {
	switch {
	case p.gone || p.busy:
	case !p.classic:
		p.beat()
	case p.epoch == 0 || p.rejoin:
		p.join()
	case !p.synced:
		p.sync()
	default:
		p.heartbeat()
	}
}

// beat sends a heartbeat of the consumer protocol.
func (p *player) beat() {
	b := p.b
	if p.epoch == 0 && p.id == "" {
		p.lives++
		p.id = fmt.Sprintf("%s-%d", p.name, p.lives)
	}
	if len(p.giving) > 0 && (b.quiet || rapid.Bool().Draw(b.t, "gives up")) {
		p.owned = slices.DeleteFunc(slices.Clone(p.owned), func(at Partition) bool { return slices.Contains(p.giving, at) })
		p.giving = nil
	}
	req := &ConsumerHeartbeatRequest{Key: bandKey, MemberID: p.id, MemberIDRequired: true, Epoch: p.epoch, RebalanceTimeout: -1}
	if p.instance != "" {
		req.InstanceID = &p.instance
	}
	if p.epoch == 0 || p.unheard || p.changes > p.told {
		req.Topics, req.Regex, req.RebalanceTimeout = append([]string{}, p.topics...), &p.regex, bandRebalance
	}
	if p.assignor != "" {
		req.Assignor = &p.assignor
	}
	req.OwnedSaid, req.Owned = true, slices.Clone(p.owned)
	sent, said := b.now, p.changes
	if !p.unheard {
		p.since = sent
	}
	p.busy = true
	out, replies := b.c.ConsumerHeartbeat(b.now, req, "")
	b.written(replies, true, func(lost bool) {
		p.busy = false
		switch {
		case p.gone:
		case lost || b.dropped():
			p.unheard = true
		case out.Err != nil:
			p.refused(out.Err)
		default:
			p.told = said
			p.beaten(&out, sent)
		}
		b.audit()
	})
}

func (p *player) beaten(out *ConsumerHeartbeatResponse, sent int64) {
	if out.Epoch < p.epoch {
		p.b.t.Fatalf("%s fell from epoch %d to %d", p.id, p.epoch, out.Epoch)
	}
	p.epoch, p.unheard = out.Epoch, false
	p.lease = sent + bandSession
	if len(p.giving) > 0 {
		p.lease = min(p.lease, p.limit)
	}
	if !out.Assigned {
		return
	}
	if len(p.giving) == 0 {
		p.limit = p.since + bandRebalance
	}
	var keep []Partition
	p.giving = nil
	for _, at := range p.owned {
		if !slices.Contains(out.Assignment, at) {
			p.giving = append(p.giving, at)
			keep = append(keep, at)
		}
	}
	if len(p.giving) > 0 {
		p.lease = min(p.lease, p.limit)
	}
	keep = append(keep, out.Assignment...)
	slices.SortFunc(keep, Partition.Compare)
	p.owned = slices.Compact(keep)
	p.commit()
}

// commit checks that a member can commit what it has, in the epoch that it was told.
func (p *player) commit() {
	if len(p.owned) == 0 || len(p.b.flights) > 0 {
		return
	}
	req := &CommitRequest{Key: bandKey, Generation: p.epoch, MemberID: p.id, InstanceID: p.instance, Retention: -1}
	for _, at := range p.owned {
		req.Offsets = append(req.Offsets, CommitOffset{Partition: at})
	}
	if _, out := p.b.c.Commit(p.b.now, req); out.Err != nil {
		p.b.t.Fatalf("%s has %v at epoch %d and cannot commit: %v", p.id, p.owned, p.epoch, out.Err)
	}
}

// refused reacts to an error as clients do.
func (p *player) refused(err *base.Error) {
	switch err.Code {
	case base.CodeRebalanceInProgress:
		p.rejoin, p.synced = true, false
	case base.CodeStorage, base.CodeNotReady:
		p.unheard = true
		p.rejoin = p.rejoin || p.classic && !p.synced
	case base.CodeMemberIDRequired:
	case base.CodeUnreleasedInstance: // until the session of the one before has ended
	default:
		p.forget()
		p.id = ""
	}
}

func (p *player) token() uint64 {
	p.b.tokens++
	p.b.waiting[p.b.tokens] = p
	p.busy = true
	return p.b.tokens
}

func (p *player) join() {
	p.owned, p.synced = nil, false
	req := &JoinRequest{
		Key: bandKey, MemberID: p.id, InstanceID: p.instance, SessionTimeout: bandSession, RebalanceTimeout: bandRebalance,
		ProtocolType: "consumer", Protocols: []Protocol{{"range", subscription(p.topics...)}}, RequireKnownID: true,
	}
	token := p.token()
	p.lives++
	p.b.written(p.b.c.Join(p.b.now, token, req, fmt.Sprintf("%s-%d", p.name, p.lives)), false, nil)
}

func (p *player) joined(r *JoinResponse) {
	if r.Err != nil {
		if r.Err.Code == base.CodeMemberIDRequired {
			p.id = r.MemberID
		}
		p.refused(r.Err)
		return
	}
	if r.MemberID == p.id && r.Generation < p.epoch && p.leader == p.b.leaders { // a generation is not saved before it is stable
		p.b.t.Fatalf("%s fell from generation %d to %d", p.id, p.epoch, r.Generation)
	}
	p.leader = p.b.leaders
	p.id, p.epoch, p.rejoin, p.synced, p.roster = r.MemberID, r.Generation, false, false, r.Members
}

func (p *player) sync() {
	req := &SyncRequest{Key: bandKey, Generation: p.epoch, MemberID: p.id, InstanceID: p.instance}
	parts := map[string][]namedPartition{}
	for name, n := range p.b.topics { // in any order: each partition goes to one
		for i := range n {
			var of []string
			for _, m := range p.roster {
				if topics, _ := subscribedTopics(m.Metadata); slices.Contains(topics, name) {
					of = append(of, m.MemberID)
				}
			}
			if len(of) > 0 {
				id := of[i%len(of)]
				parts[id] = append(parts[id], namedPartition{name, int32(i)})
			}
		}
	}
	for _, m := range p.roster {
		req.Assignments = append(req.Assignments, Assignment{m.MemberID, appendAssignment(nil, 1, parts[m.MemberID])})
	}
	p.b.written(p.b.c.Sync(p.b.now, p.token(), req), false, nil)
}

func (p *player) hasSynced(r *SyncResponse) {
	if r.Err != nil {
		p.refused(r.Err)
		return
	}
	p.owned, p.synced = nil, true
	if len(r.Assignment) >= 6 && binary.BigEndian.Uint32(r.Assignment[2:]) > 0 {
		list, _, ok := parseAssignment(r.Assignment)
		if !ok {
			p.b.t.Fatalf("%s got an assignment that it cannot read: %q", p.id, r.Assignment)
		}
		for _, at := range list {
			p.owned = append(p.owned, Partition{Stream: stream(at.topic), Index: at.index})
		}
		slices.SortFunc(p.owned, Partition.Compare)
	}
	p.lease = p.b.now + bandSession
}

func (p *player) heartbeat() {
	out := p.b.c.Heartbeat(p.b.now, &HeartbeatRequest{Key: bandKey, Generation: p.epoch, MemberID: p.id, InstanceID: p.instance})
	p.b.written(nil, false, nil)
	switch {
	case p.b.dropped():
	case out.Err != nil:
		p.refused(out.Err)
	default:
		p.lease = p.b.now + bandSession
	}
}

// leave ends a membership; a static member of the consumer protocol may only go for a while.
func (p *player) leave() {
	b := p.b
	if p.busy || p.gone || p.epoch == 0 {
		return
	}
	if p.classic {
		p.owned = nil
		out, replies := b.c.Leave(b.now, &LeaveRequest{Key: bandKey, Members: []LeavingMember{{p.id, p.instance}}})
		b.written(append(replies, Reply{p.token(), &out}), false, nil)
		return
	}
	req := &ConsumerHeartbeatRequest{Key: bandKey, MemberID: p.id, MemberIDRequired: true, Epoch: EpochLeave, RebalanceTimeout: -1}
	if p.instance != "" {
		req.InstanceID = &p.instance
		if rapid.Bool().Draw(b.t, "pause") {
			req.Epoch = EpochPause
		}
	}
	p.forget()
	p.id = ""
	_, replies := b.c.ConsumerHeartbeat(b.now, req, "")
	b.written(replies, true, func(bool) {})
}

// kill ends a process; another begins in its place, with nothing.
func (p *player) kill() {
	p.forget()
	p.id, p.busy, p.unheard = "", false, false
	for token, w := range p.b.waiting {
		if w == p {
			delete(p.b.waiting, token)
		}
	}
	n := &player{}
	*n = *p
	n.gone = rapid.Bool().Draw(p.b.t, "for good")
	p.gone = true // what it waited for finds nobody
	p.b.players[slices.Index(p.b.players, p)] = n
}

func (p *player) resubscribe() {
	p.topics = rapid.SampledFrom([][]string{{"t"}, {"t", "u"}, {"u"}, {"v"}}).Draw(p.b.t, "topics")
	p.changes++
	if p.classic {
		p.rejoin = p.epoch > 0
		return
	}
	p.regex = rapid.SampledFrom([]string{"", "", "[uv]"}).Draw(p.b.t, "regex")
	p.assignor = rapid.SampledFrom([]string{"", "range", "uniform"}).Draw(p.b.t, "assignor")
}

func (b *band) pass(ms int64) {
	b.now += ms
	b.written(b.c.Tick(b.now), false, nil)
}

func (b *band) retopic() {
	b.topics = maps.Clone(b.topics)
	name := rapid.SampledFrom([]string{"t", "u", "v"}).Draw(b.t, "topic")
	if n := b.topics[name]; n > 0 && rapid.Bool().Draw(b.t, "delete") && name != "t" {
		delete(b.topics, name)
	} else {
		b.topics[name] = n + 1
	}
	b.c.SetTopics(b.topics)
}

// settle lets nothing happen any more but what members do by themselves, once a second, and wants the group to be at rest with each
// partition at one member.
func (b *band) settle() {
	b.quiet = true
	b.commit(len(b.flights))
	for range 40 {
		b.pass(1_000)
		for _, p := range b.players {
			p.act()
		}
	}
	live := 0
	want, owners := map[Partition]bool{}, map[Partition]string{}
	for _, p := range b.players {
		if p.gone {
			continue
		}
		if p.epoch == 0 || p.classic && !p.synced {
			if b.opts.Consumer.Migration == MigrationBidirectional {
				b.t.Fatalf("%s is not a member in the end", p.name)
			}
			continue // the group is one of the other protocol
		}
		live++
		for name, n := range b.topics {
			if slices.Contains(p.topics, name) || p.regex != "" && (name == "u" || name == "v") {
				for i := range n {
					want[Partition{Stream: stream(name), Index: int32(i)}] = true
				}
			}
		}
		for _, at := range p.owned {
			if owners[at] != "" {
				b.t.Fatalf("%v is with %s and %s in the end", at, owners[at], p.name)
			}
			owners[at] = p.name
		}
	}
	if g := b.c.consumers[bandKey]; g != nil && live > 0 && g.state() != Stable {
		b.t.Fatalf("the group is %s in the end: %+v", g.state(), b.c.DescribeConsumers(bandKey))
	}
	for at := range want {
		if owners[at] == "" {
			b.t.Fatalf("nobody has %v in the end", at)
		}
	}
	for at := range owners {
		if !want[at] {
			b.t.Fatalf("%s has %v in the end, to which nobody subscribes", owners[at], at)
		}
	}
	if b.c.NextDeadline() == math.MaxInt64 && live > 0 {
		b.t.Fatal("no member has a session")
	}
}

func TestConsumerModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBand(rt)
		act := func() { rapid.SampledFrom(b.players).Draw(rt, "player").act() }
		one := func(fn func(*player)) func() {
			return func() { fn(rapid.SampledFrom(b.players).Draw(rt, "player")) }
		}
		commit := func() { b.commit(rapid.IntRange(0, len(b.flights)).Draw(rt, "entries")) }
		actions := []func(){
			act, act, act, act, act, act, act, act, act, act, commit, commit, commit, commit,
			func() { b.pass(rapid.SampledFrom([]int64{1, 500, 1_000, 3_000}).Draw(rt, "passed")) },
			func() { b.pass(200) },
			one((*player).leave), one((*player).kill), one((*player).resubscribe), b.retopic, b.lose,
			func() { b.restart(rapid.Bool().Draw(rt, "snapshot")) },
		}
		for range rapid.IntRange(1, 250).Draw(rt, "steps") {
			actions[rapid.IntRange(0, len(actions)-1).Draw(rt, "action")]()
			b.audit()
		}
		b.settle()
	})
}
