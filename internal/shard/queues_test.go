package shard

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/coord/share"
	"godwit/internal/queue"
)

var workers = share.Key{Namespace: "ns", Group: "g"}

func queueCommands() []*Command {
	k := QueueKey{workers, 5}
	return []*Command{
		{Queues: []QueueCommand{{QueueKey: k, Version: 300, Do: &queue.Reset{Step: queue.Step{Seq: 1, Time: 10}, Start: 2}}}},
		{Queues: []QueueCommand{
			{QueueKey: k, Do: &queue.Acquire{Step: queue.Step{Seq: 2, Time: 11}, Consumer: "c", Deadline: 50, Spans: []queue.Span{{First: 2, Last: 4}}}},
			{QueueKey: k, Delete: true},
			{QueueKey: QueueKey{share.Key{Namespace: "ns"}, 1 << 40}, Version: -1},
		}},
	}
}

// TestQueueCommandFormat: the bytes, and that nothing shorter is taken for them.
func TestQueueCommandFormat(t *testing.T) {
	wants := [][]byte{
		{7, 14, 5, 5, 2, 'n', 's', 1, 'g', 216, 4, 1, 6, 1, 20, 4},
		{7,
			18, 4, 5, 2, 'n', 's', 1, 'g', 1, 1, 2, 22, 1, 'c', 100, 0, 1, 4, 2,
			7, 2, 5, 2, 'n', 's', 1, 'g',
			12, 1, 128, 128, 128, 128, 128, 32, 2, 'n', 's', 0, 1},
	}
	for i, c := range queueCommands() {
		b := c.Encode(nil)
		if !bytes.Equal(b, wants[i]) {
			t.Errorf("command %d is written as %v, want %v", i, b, wants[i])
		}
		back, err := Decode(b)
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("command %d: %+v, %v; want %+v", i, back, err, c)
		}
		for _, q := range c.Queues {
			one := q.appendTo(nil)
			for n := range one {
				if _, err := decodeQueueCommand(one[:n]); base.CodeOf(err) != base.CodeCorruption {
					t.Errorf("command %d: %d of %d bytes: %v", i, n, len(one), err)
				}
			}
			if _, err := decodeQueueCommand(append(one, 0)); base.CodeOf(err) != base.CodeCorruption {
				t.Errorf("command %d with a byte behind: %v", i, err)
			}
		}
	}
}

// keptKeys is a state store.
type keptKeys map[string][]byte

func (s keptKeys) put(k, v []byte) {
	if v == nil {
		delete(s, string(k))
	} else {
		s[string(k)] = bytes.Clone(v)
	}
}

func (s keptKeys) Scan(from, to []byte, fn func(key, value []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if k >= string(from) && k < string(to) && !fn([]byte(k), s[k]) {
			break
		}
	}
	return nil
}

// queueShape is all that can be seen of the queues of a shard.
func queueShape(m *Machine) (out []string) {
	m.Queues(func(k QueueKey, q *queue.Queue) {
		q.Check()
		_, version, ok := m.Queue(k)
		text := fmt.Sprint(k, version, ok, q.Describe(0), q.Effects())
		q.Runs(func(r queue.Run) bool { text += fmt.Sprint(r); return true })
		out = append(out, text)
	})
	return out
}

// checkQueueSums counts all queues by themselves.
func checkQueueSums(t *rapid.T, m *Machine) {
	want, got := map[share.Key]QueueSums{}, map[share.Key]QueueSums{}
	m.Queues(func(k QueueKey, q *queue.Queue) {
		d := q.Describe(0)
		one, all := sumsOf(&d), want[k.Group]
		all.Add(&one)
		want[k.Group] = all
	})
	m.QueueSums(func(k share.Key, s *QueueSums) { got[k] = *s })
	if !maps.Equal(got, want) {
		t.Fatalf("sums %+v, want %+v", got, want)
	}
}

// TestQueuesAreInTheCheckpoint makes, changes and deletes queues and their logs, and restores a machine now and then: it goes on
// as the one that was not restored, and nothing of queues that are gone stays in the store.
func TestQueuesAreInTheCheckpoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kept := keptKeys{}
		m := New(1, nil)
		m.SetStored(kept)
		version := int64(1)
		must := func(c *Command) {
			back, err := Decode(c.Encode(nil))
			if err == nil {
				_, err = m.Apply(m.Index+1, 1, m.Time+1, back)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		key := func(t *rapid.T) QueueKey {
			return QueueKey{share.Key{Group: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group")}, base.LogID(rapid.IntRange(1, 2).Draw(t, "log"))}
		}
		change := func(fn func(t *rapid.T, q *queue.Queue) queue.Command) func(*rapid.T) {
			return func(t *rapid.T) {
				k := key(t)
				q, _, ok := m.Queue(k)
				if !ok {
					return
				}
				q.Options = queue.Options{Lock: 50, MaxDeliveries: 2, Horizon: 5}
				if cmd := fn(t, q); cmd != nil {
					must(&Command{Queues: []QueueCommand{{QueueKey: k, Do: cmd}}})
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"logs": func(*rapid.T) { must(&Command{Create: []base.LogID{1, 2}}) },
			"drop": func(t *rapid.T) { must(&Command{Drop: []base.LogID{key(t).Log}}) },
			"make": func(t *rapid.T) {
				k := key(t)
				if _, ok := m.Log(k.Log); ok {
					q, _, ok := m.Queue(k)
					if !ok {
						q = queue.New(queue.Options{}, nil)
					}
					version++
					must(&Command{Queues: []QueueCommand{{QueueKey: k, Version: version, Do: q.Reset(m.Time, rapid.Int64Range(0, 9).Draw(t, "start"))}}})
				}
			},
			"delete": func(t *rapid.T) { must(&Command{Queues: []QueueCommand{{QueueKey: key(t), Delete: true}}}) },
			"admit": change(func(t *rapid.T, q *queue.Queue) queue.Command {
				at := q.NextAdmit()
				return q.Admit(m.Time, at+4, []queue.Meta{{Offset: at + 1, NotBefore: m.Time + rapid.Int64Range(0, 40).Draw(t, "delay")}})
			}),
			"acquire": change(func(t *rapid.T, q *queue.Queue) queue.Command {
				cmd, _ := q.Acquire(m.Time, &queue.Want{Consumer: "c", Records: rapid.IntRange(1, 4).Draw(t, "records"), Strict: true})
				return cmd
			}),
			"release": change(func(t *rapid.T, q *queue.Queue) queue.Command { return q.Release(m.Time, "c", false) }),
			"tick": change(func(t *rapid.T, q *queue.Queue) queue.Command {
				cmds, err := q.Tick(m.Time + rapid.Int64Range(0, 40).Draw(t, "later"))
				if err != nil {
					t.Fatal(err)
				}
				if len(cmds) == 0 {
					return nil
				}
				q.Abandon()
				return cmds[0]
			}),
			"confirm": change(func(t *rapid.T, q *queue.Queue) queue.Command {
				if es := q.Effects(); len(es) > 0 {
					return q.Confirm(m.Time, []uint64{es[0].ID})
				}
				return nil
			}),
			"sums":       func(t *rapid.T) { checkQueueSums(t, m) },
			"checkpoint": func(*rapid.T) { m.Checkpoint(kept.put) },
			"restore": func(t *rapid.T) {
				m.Checkpoint(kept.put)
				back := restore(t, kept, m)
				back.SetStored(kept)
				if got, want := queueShape(back), queueShape(m); !slices.Equal(got, want) {
					t.Fatalf("restored\n%q, want\n%q", got, want)
				}
				m = back
				if len(queueShape(m)) > 0 {
					return
				}
				m.Checkpoint(kept.put)
				for k := range kept {
					if IsQueueKey([]byte(k)) || k[0] == keyQueueName {
						t.Fatalf("key %q of a queue that is gone", k)
					}
				}
			},
		})
	})
}
