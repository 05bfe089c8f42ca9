package group

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
)

// world drives a coordinator with clients that know only what they were answered, and audits the answers.
type world struct {
	t       *rapid.T
	opts    Options
	offsets *Offsets
	c       *Coordinator
	now     int64
	journal []Command // written, not yet applied
	tokens  uint64
	clients []*client
	waiting map[uint64]*client

	highest map[Key]int32           // generation seen
	told    map[generation]*verdict // what the members of a generation were told
}

type generation struct {
	Key
	number int32
}

// verdict is what all members of one generation must agree on.
type verdict struct {
	protocolType, protocol string
	leaders                map[string]bool // members that got the roster
}

// client is one consumer process.
type client struct {
	key        Key
	instance   string
	id         string
	generation int32
	roster     []JoinedMember
	synced     bool   // has its assignment
	rejoin     bool   // was told to join again
	token      uint64 // waits; 0: does not
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, opts: DefaultOptions(), offsets: NewOffsets(), now: 1,
		waiting: map[uint64]*client{}, highest: map[Key]int32{}, told: map[generation]*verdict{},
	}
	w.opts.InitialDelay = rapid.SampledFrom([]int64{0, 3000}).Draw(t, "delay")
	w.opts.MaxSize = rapid.SampledFrom([]int{2, 100}).Draw(t, "size")
	w.c = NewCoordinator(w.opts, w.offsets, w.now)
	for i, instance := range []string{"", "", "i0", "i1", "i1", ""} {
		c := &client{key: Key{Namespace: "default", Group: "g"}, generation: -1, instance: instance}
		if i == 5 {
			c.key.Group = "other"
		}
		w.clients = append(w.clients, c)
	}
	return w
}

// pick draws a client; idle ones only if said so, nil if there is none.
func (w *world) pick(idle bool) *client {
	c := rapid.SampledFrom(w.clients).Draw(w.t, "client")
	if idle && c.token != 0 {
		return nil
	}
	return c
}

func (w *world) token(c *client) uint64 {
	w.tokens++
	if c.token == 0 {
		c.token = w.tokens
	}
	w.waiting[w.tokens] = c
	return w.tokens
}

func (w *world) join() { w.joinAs(w.pick(false)) }

// proceed does what a well-behaved client does next.
func (w *world) proceed() {
	switch c := w.pick(true); {
	case c == nil:
	case c.generation < 0 || c.rejoin:
		w.joinAs(c)
	case !c.synced:
		w.syncAs(c)
	default:
		w.heartbeatAs(c)
	}
}

func (w *world) joinAs(c *client) {
	protocols := rapid.SampledFrom([][]Protocol{
		{{"range", []byte("x")}}, {{"range", []byte("y")}, {"sticky", nil}}, {{"sticky", nil}, {"range", []byte("x")}},
		{{"range", []byte("x")}, {"range", []byte("z")}}, {{"sticky", nil}}, {},
	}).Draw(w.t, "protocols")
	req := &JoinRequest{
		Key: c.key, MemberID: c.id, InstanceID: c.instance, ClientID: "c",
		SessionTimeout:   rapid.SampledFrom([]int64{45000, 6000, 10000, 5999}).Draw(w.t, "session"),
		RebalanceTimeout: rapid.SampledFrom([]int64{-1, 0, 1000, 60000}).Draw(w.t, "rebalance"),
		ProtocolType:     rapid.SampledFrom([]string{"consumer", "consumer", "consumer", "consumer", "consumer", "connect"}).Draw(w.t, "type"),
		Protocols:        protocols,
		RequireKnownID:   rapid.Bool().Draw(w.t, "known"),
		CanSkip:          rapid.Bool().Draw(w.t, "skip"),
	}
	token := w.token(c)
	w.replies(w.c.Join(w.now, token, req, fmt.Sprint(token)))
}

func (w *world) sync() {
	if c := w.pick(true); c != nil && c.generation >= 0 {
		w.syncAs(c)
	}
}

func (w *world) syncAs(c *client) {
	req := &SyncRequest{Key: c.key, Generation: c.generation, MemberID: c.id, InstanceID: c.instance}
	for _, m := range c.roster {
		req.Assignments = append(req.Assignments, Assignment{m.MemberID, []byte(fmt.Sprintf("%s@%d", m.MemberID, c.generation))})
	}
	w.replies(w.c.Sync(w.now, w.token(c), req))
}

func (w *world) heartbeat() { w.heartbeatAs(w.pick(false)) }

func (w *world) heartbeatAs(c *client) {
	out := w.c.Heartbeat(w.now, &HeartbeatRequest{Key: c.key, Generation: c.generation, MemberID: c.id, InstanceID: c.instance})
	c.hear(out.Err)
}

func (w *world) commit() {
	c := w.pick(false)
	cmd, _ := w.c.Commit(w.now, &CommitRequest{
		Key: c.key, Generation: c.generation, MemberID: c.id, InstanceID: c.instance, Retention: -1,
		Offsets: []CommitOffset{{Partition: Partition{Stream: base.StreamID{1}}, Offset: int64(w.tokens)}},
	})
	if cmd != nil {
		w.journal = append(w.journal, cmd)
	}
}

func (w *world) leave() {
	c := w.pick(false)
	out, replies := w.c.Leave(w.now, &LeaveRequest{Key: c.key, Members: []LeavingMember{{c.id, c.instance}}})
	if out.Members[0].Err == nil {
		c.forget()
	}
	w.replies(replies)
}

func (w *world) cancel() {
	if len(w.waiting) == 0 {
		return
	}
	token := rapid.SampledFrom(slices.Sorted(maps.Keys(w.waiting))).Draw(w.t, "token")
	c := w.waiting[token]
	delete(w.waiting, token)
	if c.token == token {
		c.token = 0
	}
	w.replies(w.c.Cancel(w.now, token))
}

func (w *world) tick() {
	w.now += rapid.SampledFrom([]int64{0, 1, 1000, 3000, 20_000}).Draw(w.t, "passed")
	w.replies(w.c.Tick(w.now))
}

func (w *world) deleteGroup() {
	if cmd, err := w.c.DeleteGroup(w.pick(false).key); err == nil {
		w.deleted(cmd)
	}
}

func (w *world) expire() {
	for _, cmd := range w.c.Expire(w.now, func(base.StreamID) (string, bool) { return "t", rapid.Bool().Draw(w.t, "alive") }) {
		w.deleted(cmd)
	}
}

// deleted writes a command; with a group, its generations are forgotten.
func (w *world) deleted(cmd Command) {
	w.journal = append(w.journal, cmd)
	if d, ok := cmd.(*DeleteGroup); ok {
		delete(w.highest, d.Key)
		maps.DeleteFunc(w.told, func(g generation, _ *verdict) bool { return g.Key == d.Key })
	}
}

// apply commits a part of what was written.
func (w *world) apply() {
	w.settle(rapid.IntRange(0, len(w.journal)).Draw(w.t, "entries"))
}

func (w *world) settle(n int) {
	for _, cmd := range w.journal[:n] {
		w.offsets.Apply(cmd)
	}
	w.journal = w.journal[n:]
}

// restart loses the leader: who waits is told, and what was not committed is lost or not.
func (w *world) restart() {
	w.replies(w.c.Resign(base.Errorf(base.CodeNotReady, "moved")))
	w.settle(rapid.IntRange(0, len(w.journal)).Draw(w.t, "kept"))
	w.journal = nil
	w.offsets.Check()
	w.c = NewCoordinator(w.opts, w.offsets, w.now)
	w.highest, w.told = map[Key]int32{}, map[generation]*verdict{}
}

func (c *client) forget() {
	c.id, c.generation, c.roster, c.synced, c.rejoin = "", -1, nil, false, false
}

// hear reacts to an error as clients do.
func (c *client) hear(err *base.Error) {
	if err == nil {
		return
	}
	switch err.Code {
	case base.CodeUnknownMember, base.CodeFencedInstance:
		c.forget()
	case base.CodeIllegalGeneration:
		c.generation, c.roster, c.synced = -1, nil, false
	case base.CodeRebalanceInProgress:
		c.rejoin, c.synced = true, false
	}
}

// replies audits what became due.
func (w *world) replies(replies []Reply) {
	for _, r := range replies {
		c := w.waiting[r.Token]
		if c == nil {
			w.t.Fatalf("token %d is answered and nobody waits for it", r.Token)
		}
		delete(w.waiting, r.Token)
		mine := c.token == r.Token
		if mine {
			c.token = 0
		}
		switch r := r.Response.(type) {
		case *JoinResponse:
			w.joined(c, r, mine)
		case *SyncResponse:
			if r.Err == nil && len(r.Assignment) > 0 && mine && c.generation >= 0 && c.instance == "" {
				if want := fmt.Sprintf("%s@%d", c.id, c.generation); string(r.Assignment) != want {
					w.t.Fatalf("member %s of generation %d got the assignment %s", c.id, c.generation, r.Assignment)
				}
			}
			c.synced = r.Err == nil && mine
			c.hear(r.Err)
		}
	}
	w.journal = append(w.journal, w.c.Changes()...)
	w.c.Check()
}

func (w *world) joined(c *client, r *JoinResponse, mine bool) {
	if r.Err != nil {
		if r.Err.Code == base.CodeMemberIDRequired {
			c.id = r.MemberID
		}
		c.hear(r.Err)
		return
	}
	if r.Generation < w.highest[c.key] {
		w.t.Fatalf("group %v: generation %d after %d", c.key, r.Generation, w.highest[c.key])
	}
	w.highest[c.key] = r.Generation
	g := generation{c.key, r.Generation}
	v := w.told[g]
	if v == nil {
		v = &verdict{r.ProtocolType, r.Protocol, map[string]bool{}}
		w.told[g] = v
	}
	if v.protocolType != r.ProtocolType || v.protocol != r.Protocol {
		w.t.Fatalf("generation %v has protocols %s %s and %s %s", g, v.protocolType, v.protocol, r.ProtocolType, r.Protocol)
	}
	if len(r.Members) > 0 {
		if r.Leader != r.MemberID {
			w.t.Fatalf("member %s got the roster of generation %v; %s leads", r.MemberID, g, r.Leader)
		}
		// A leading static member that came back leads under its new ID, told to skip.
		v.leaders[c.instance+"/"+map[bool]string{true: "", false: r.MemberID}[c.instance != ""]] = true
		if len(v.leaders) > 1 {
			w.t.Fatalf("generation %v has leaders %v", g, v.leaders)
		}
	}
	if mine {
		c.id, c.generation, c.roster, c.synced, c.rejoin = r.MemberID, r.Generation, r.Members, false, false
	}
}

// end lets time pass until all that wait are answered: each wait has an end.
func (w *world) end() {
	for range 10_000 {
		if len(w.waiting) == 0 {
			return
		}
		at := w.c.NextDeadline()
		if at == math.MaxInt64 {
			break
		}
		w.now = max(w.now, at)
		w.replies(w.c.Tick(w.now))
	}
	w.t.Fatalf("%d requests wait for ever", len(w.waiting))
}

func TestMembershipModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		actions := []func(){
			w.proceed, w.proceed, w.proceed, w.proceed, w.proceed, w.proceed, w.proceed, w.proceed,
			w.join, w.sync, w.heartbeat, w.commit, w.leave, w.cancel, w.tick, w.tick, w.deleteGroup, w.expire, w.apply, w.restart,
		}
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			actions[rapid.IntRange(0, len(actions)-1).Draw(rt, "action")]()
			w.c.Check()
			w.offsets.Check()
		}
		w.end()
	})
}
