package app

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestConsumerGroup lets a member of the classic protocol read, then two of the consumer protocol with it, then one of each, then the
// classic one alone: the group changes its type and back while it has members, and every partition has one of them.
func TestConsumerGroup(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := testSettings(t.TempDir())
	o.GroupSettings = map[string]string{
		"group.initial.rebalance.delay.ms": "0", "group.consumer.heartbeat.interval.ms": "50", "group.consumer.assignment.interval.ms": "0",
	}
	r := serve(t, o)
	defer r.stop()
	r.godwit(t, "", 0, "topic", "create", "orders", "--partitions", "4")
	for p := range 4 {
		r.godwit(t, numbers(1, 10), 0, "produce", "orders", "--partition", fmt.Sprint(p))
	}
	member := func(name string, opts ...kgo.Opt) *kgo.Client {
		cl := client(t, r, append(opts, kgo.ClientID(name), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"), kgo.HeartbeatInterval(50*time.Millisecond),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(100*time.Millisecond))...)
		go func() {
			for !cl.PollFetches(ctx).IsClientClosed() && ctx.Err() == nil {
			}
		}()
		return cl
	}
	// divided waits until the group has the type and these members, and each partition is with one of them.
	divided := func(kind string, names ...string) {
		t.Helper()
		for {
			d := r.describe(t, "g")
			owners, members := map[string]int{}, map[string]bool{}
			for _, m := range d.Members {
				members[m.ClientID] = len(m.Assigned) > 0
				for _, p := range m.Assigned {
					owners[fmt.Sprint(p.Topic, "/", p.Partition)]++
				}
			}
			good := d.Type == kind && d.State == "Stable" && len(d.Members) == len(names) && len(owners) == 4
			for _, name := range names {
				good = good && members[name]
			}
			for p, n := range owners {
				if n > 1 && d.State == "Stable" {
					t.Fatalf("%s has %d members: %+v", p, n, d)
				}
			}
			if good {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("the group is %+v, want type %s with members %v", d, kind, names)
			}
		}
	}
	old := member("old", kgo.Balancers(kgo.CooperativeStickyBalancer()))
	for !strings.Contains(r.godwit(t, "", 0, "group", "list"), "classic") {
		must(t, ctx.Err())
	}
	divided("classic", "old")
	first := member("first", kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	divided("consumer", "old", "first")
	second := member("second", kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	divided("consumer", "old", "first", "second")
	mustContain(t, r.godwit(t, "", 0, "group", "list"), "g      consumer")
	mustContain(t, r.godwit(t, "", 0, "group", "describe", "g"), "old", "first", "second", "type consumer", "assignor uniform")
	mustContain(t, r.godwit(t, "", 0, "group", "describe", "g", "--http", "off"), "old", "first", "second", "orders:")
	second.Close()
	divided("consumer", "old", "first")
	first.Close()
	divided("classic", "old")
	again := member("again", kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	divided("consumer", "old", "again")
	old.Close()
	divided("consumer", "again")
	for d := r.describe(t, "g"); d.Lag == nil || d.Lag.Records != 0 || len(d.Partitions) != 4 || d.Partitions[0].Committed == nil; d = r.describe(t, "g") {
		if ctx.Err() != nil {
			t.Fatalf("not read in time: %+v", d)
		}
	}
	for !strings.Contains(r.get(t, "/v1/groups"), `"group":"g","type":"consumer"`) { // it may be a second old
		must(t, ctx.Err())
	}
	mustContain(t, r.get(t, "/metrics"), `godwit_group_lag_records{group="g",topic="orders"} 0`)
	again.Close()
	mustContain(t, r.godwit(t, "", 0, "group", "reset-offsets", "g", "--topic", "orders:0", "--to", "4", "--execute"), "set 1 position(s)")
	mustContain(t, r.godwit(t, "", 0, "group", "delete", "g"), "deleted g")
	mustContain(t, r.godwit(t, "", 1, "group", "describe", "g"), "GROUP_ID_NOT_FOUND")
}
