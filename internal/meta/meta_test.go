package meta

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/base"
)

var lim = Limits{DefaultPartitions: 3, DefaultReplicas: 1, MaxReplicas: 1, MaxLogs: 1000}

func fresh() *State {
	s := NewState(nil)
	s.Apply(&Command{Bootstrap: &Bootstrap{ClusterID: "c", DataShards: 4, GroupSlots: []base.ShardID{1, 2, 3, 4}}})
	return s
}

func sid(n byte) base.StreamID { return base.StreamID{0: n, 15: 1} }

func create(t *testing.T, s *State, name string, n byte) *Stream {
	t.Helper()
	c, err := s.DecideCreate(&CreateStream{Namespace: "default", Name: name, Partitions: -1, Replicas: -1}, sid(n), 7, lim)
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(c)
	st, ok := s.View.Stream("default", name)
	if !ok {
		t.Fatalf("%s was not created", name)
	}
	return st
}

func TestCreateRefusals(t *testing.T) {
	s := fresh()
	create(t, s, "a.b", 1)
	tests := map[string]struct {
		r    CreateStream
		code base.Code
	}{
		"exists":           {CreateStream{Name: "a.b", Partitions: 1, Replicas: 1}, base.CodeStreamExists},
		"collides":         {CreateStream{Name: "a_b", Partitions: 1, Replicas: 1}, base.CodeInvalidName},
		"empty name":       {CreateStream{Name: "", Partitions: 1, Replicas: 1}, base.CodeInvalidName},
		"dots":             {CreateStream{Name: "..", Partitions: 1, Replicas: 1}, base.CodeInvalidName},
		"bad letter":       {CreateStream{Name: "a/b", Partitions: 1, Replicas: 1}, base.CodeInvalidName},
		"long name":        {CreateStream{Name: string(make([]byte, 250)), Partitions: 1, Replicas: 1}, base.CodeInvalidName},
		"no partitions":    {CreateStream{Name: "x", Partitions: 0, Replicas: 1}, base.CodeInvalidPartitions},
		"many partitions":  {CreateStream{Name: "x", Partitions: MaxPartitions + 1, Replicas: 1}, base.CodeInvalidPartitions},
		"above the limit":  {CreateStream{Name: "x", Partitions: 998, Replicas: 1}, base.CodePolicyViolation},
		"two replicas":     {CreateStream{Name: "x", Partitions: 1, Replicas: 2}, base.CodeInvalidReplication},
		"unknown config":   {CreateStream{Name: "x", Partitions: 1, Replicas: 1, Overrides: map[string]string{"x": "y"}}, base.CodeInvalidConfig},
		"bad config value": {CreateStream{Name: "x", Partitions: 1, Replicas: 1, Overrides: map[string]string{"retention.ms": "soon"}}, base.CodeInvalidConfig},
	}
	for name, tt := range tests {
		tt.r.Namespace = "default"
		if _, err := s.DecideCreate(&tt.r, sid(9), 0, lim); err == nil || base.CodeOf(err) != tt.code {
			t.Errorf("%s: error %v, want code %d", name, err, tt.code)
		}
	}
	if _, err := s.DecideCreate(&CreateStream{Namespace: "other", Name: "a.b", Partitions: 1, Replicas: 1}, sid(9), 0, lim); err != nil {
		t.Errorf("the same name in another namespace: %v", err)
	}
}

func TestLogIDsAreNeverReused(t *testing.T) {
	s := fresh()
	a := create(t, s, "a", 1)
	c, err := s.DecideDelete(a.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(c)
	b := create(t, s, "a", 2)
	if b.Partitions[0].Log <= a.Partitions[2].Log || b.ID == a.ID {
		t.Errorf("deleted %v, created %v", a.Partitions, b.Partitions)
	}
}

func TestEffectsUntilDone(t *testing.T) {
	s := fresh()
	a := create(t, s, "a", 1)
	made := 0
	for _, e := range s.Effects(a.ID) {
		made += len(e.Create)
	}
	if made != 3 || !slices.Equal(s.Outstanding(), []base.StreamID{a.ID}) {
		t.Fatalf("%d logs to make, outstanding %v", made, s.Outstanding())
	}
	s.Apply(&Command{Done: &EffectDone{Stream: a.ID, Ready: 3}})
	if len(s.Outstanding()) != 0 || len(s.Effects(a.ID)) != 0 {
		t.Fatalf("outstanding after done: %v", s.Outstanding())
	}
	g, err := s.DecideGrow(a.ID, 5, lim)
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(g)
	made = 0
	for _, e := range s.Effects(a.ID) {
		made += len(e.Create)
	}
	if made != 2 {
		t.Fatalf("%d logs to make after growing by 2", made)
	}
	d, _ := s.DecideDelete(a.ID)
	s.Apply(d)
	dropped, forgotten := 0, 0
	for _, e := range s.Effects(a.ID) {
		dropped += len(e.Drop)
		if e.Forget {
			forgotten++
		}
	}
	if dropped != 5 || forgotten != 4 {
		t.Fatalf("%d logs to drop, %d shards to forget offsets", dropped, forgotten)
	}
	s.Apply(&Command{Done: &EffectDone{Stream: a.ID, Dropped: true}})
	if len(s.Outstanding()) != 0 {
		t.Fatalf("outstanding after the drop: %v", s.Outstanding())
	}
}

func TestConfigMergesOrReplaces(t *testing.T) {
	s := fresh()
	a := create(t, s, "a", 1)
	set := func(values map[string]*string, replace bool) map[string]string {
		t.Helper()
		c, err := s.DecideConfig(a.ID, values, replace)
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(c)
		st, _ := s.View.StreamByID(a.ID)
		return st.Overrides
	}
	v := func(s string) *string { return &s }
	set(map[string]*string{"retention.ms": v("5"), "retention.bytes": v("6")}, false)
	if got := set(map[string]*string{"retention.ms": nil, "segment.ms": v("7")}, false); !maps.Equal(got, map[string]string{"retention.bytes": "6", "segment.ms": "7"}) {
		t.Errorf("merged to %v", got)
	}
	if got := set(map[string]*string{"retention.ms": v("9")}, true); !maps.Equal(got, map[string]string{"retention.ms": "9"}) {
		t.Errorf("replaced by %v", got)
	}
	if st, _ := s.View.StreamByID(a.ID); st.Config.RetentionMs != 9 {
		t.Errorf("resolved to %d", st.Config.RetentionMs)
	}
	if _, err := s.DecideConfig(a.ID, map[string]*string{"nonsense": nil}, false); base.CodeOf(err) != base.CodeInvalidConfig {
		t.Errorf("unknown key: %v", err)
	}
}

// TestViewsStayAsTheyAre keeps old views beside random changes, and restores the state from its checkpoints.
func TestViewsStayAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := fresh()
		kept := map[string][]byte{}
		next := byte(0)
		type old struct {
			v    *View
			text string
		}
		var views []old
		text := func(v *View) string {
			b, err := json.Marshal(v.Streams("default"))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		checkpoint := func(ids ...base.StreamID) {
			s.Checkpoint(ids, func(key, value []byte) {
				if value == nil {
					delete(kept, string(key))
				} else {
					kept[string(key)] = value
				}
			})
		}
		checkpoint()
		pick := func(t *rapid.T) *Stream {
			all := s.View.Streams("default")
			if len(all) == 0 {
				return nil
			}
			return all[rapid.IntRange(0, len(all)-1).Draw(t, "stream")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				next++
				c, err := s.DecideCreate(&CreateStream{Namespace: "default", Name: fmt.Sprintf("t%d", rapid.IntRange(0, 9).Draw(t, "name")), Partitions: 2, Replicas: 1}, sid(next), 0, lim)
				if err == nil {
					checkpoint(s.Apply(c))
				}
			},
			"delete": func(t *rapid.T) {
				if st := pick(t); st != nil {
					c, _ := s.DecideDelete(st.ID)
					checkpoint(s.Apply(c))
				}
			},
			"done": func(t *rapid.T) {
				for _, id := range s.Outstanding() {
					if st := s.Dropping[id]; st != nil {
						checkpoint(s.Apply(&Command{Done: &EffectDone{Stream: id, Dropped: true}}))
					} else {
						checkpoint(s.Apply(&Command{Done: &EffectDone{Stream: id, Ready: len(s.Creating[id].Partitions)}}))
					}
				}
			},
			"keep": func(*rapid.T) { views = append(views, old{s.View, text(s.View)}) },
			"": func(t *rapid.T) {
				for _, o := range views {
					if text(o.v) != o.text {
						t.Fatalf("a view changed from %s to %s", o.text, text(o.v))
					}
				}
				r := NewRestorer(nil)
				for _, k := range slices.Sorted(maps.Keys(kept)) {
					if err := r.Restore([]byte(k), kept[k]); err != nil {
						t.Fatal(err)
					}
				}
				back := r.Done()
				if text(back.View) != text(s.View) || back.NextLog != s.NextLog || back.View.Len() != s.View.Len() || !slices.Equal(back.Outstanding(), s.Outstanding()) ||
					!reflect.DeepEqual(back.View.GroupSlots, s.View.GroupSlots) {
					t.Fatalf("restored %s, outstanding %v; want %s, %v", text(back.View), back.Outstanding(), text(s.View), s.Outstanding())
				}
			},
		})
	})
}

func TestCommandRoundTrip(t *testing.T) {
	c := &Command{Grow: &Grow{Stream: sid(3), Partitions: []Partition{{Log: 4, Shard: 2}}}}
	back, err := DecodeCommand(c.Encode())
	if err != nil || !reflect.DeepEqual(back, c) {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := DecodeCommand([]byte("{")); base.CodeOf(err) != base.CodeCorruption {
		t.Errorf("damaged command: %v", err)
	}
}

func TestGroupShards(t *testing.T) {
	v := &View{GroupSlots: []base.ShardID{3, 1, 3, 2, 1}}
	if got := v.GroupShards(); !slices.Equal(got, []base.ShardID{3, 1, 2}) {
		t.Errorf("slots %v are in shards %v", v.GroupSlots, got)
	}
	if got := (&View{}).GroupShards(); got != nil {
		t.Errorf("no slots are in shards %v", got)
	}
}
