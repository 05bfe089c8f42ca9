package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// do runs a command line against a broker, with a text as its input.
func do(t *testing.T, addr, in, args string) result {
	t.Helper()
	return runIn(t, in, append(strings.Fields(args), "--broker", addr)...)
}

// sorted are the lines of a text, sorted: partitions come in any order.
func sorted(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "|")
}

func TestProduceAndConsume(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(3, "t"))
	do(t, addr, "first\nsecond\n", "produce t --timeout 5s").want(t, 0, "wrote 2 record(s) to t\n")
	do(t, addr, "eu:1\nus:2\nus:\n", "produce t --key-separator : --header source=test --header x= --compression zstd --empty-is-null --json").want(t, 0, `{"records":3,"topic":"t"}`)
	if r := do(t, addr, "last", "produce t --key k --partition 2 -q"); r.out != "" || r.code != 0 {
		t.Errorf("said %q", r.out)
	}
	r := do(t, addr, "", "consume t")
	r.want(t, 0)
	if got := sorted(r.out); got != "|1|2|first|last|second" {
		t.Errorf("read %q", got)
	}
	if got := sorted(do(t, addr, "", "consume t --keys --headers").out); got != "\tk\tlast|\tnull\tfirst|\tnull\tsecond|source=test,x=\teu\t1|source=test,x=\tus\t|source=test,x=\tus\t2" {
		t.Errorf("read %q", got)
	}
	do(t, addr, "", "consume t --partition 2 --offsets --timestamps").want(t, 0, "Z\t2:0\t")
	do(t, addr, "", "consume none").want(t, exitFailed, "UNKNOWN_TOPIC_OR_PARTITION", "godwit topic create")
	do(t, addr, "", "consume t --partition 3").want(t, exitUsage, "no partition 3")
}

// TestJSONKeepsEverything copies a topic by way of JSON lines.
func TestJSONKeepsEverything(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(1, "from", "to"))
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	at := time.UnixMilli(1_700_000_000_123)
	in := []*kgo.Record{
		{Key: []byte("k"), Value: []byte("v"), Timestamp: at},
		{Timestamp: at.Add(time.Second)},
		{Key: []byte{}, Value: []byte{}, Timestamp: at},
		{Key: []byte{0xff, 0}, Value: []byte("<\n\t\"\u2028>\x00"), Timestamp: at, Headers: []kgo.RecordHeader{{Key: "h"}, {Key: "h", Value: []byte{}}, {Key: "ü", Value: []byte{0xc0}}}},
	}
	for _, r := range in {
		r.Topic = "from"
	}
	if err := cl.ProduceSync(t.Context(), in...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	out := do(t, addr, "", "consume from --json")
	out.want(t, 0)
	do(t, addr, out.out+"\n", "produce to --json-lines").want(t, 0, "wrote 4")
	cl.AddConsumeTopics("to")
	for i := 0; i < len(in); {
		f := cl.PollFetches(t.Context())
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range f.Records() {
			w := in[i]
			if !same(r.Key, w.Key) || !same(r.Value, w.Value) || !r.Timestamp.Equal(w.Timestamp) || len(r.Headers) != len(w.Headers) {
				t.Errorf("record %d is %+v, want %+v", i, r, w)
			}
			for j := range w.Headers {
				if r.Headers[j].Key != w.Headers[j].Key || !same(r.Headers[j].Value, w.Headers[j].Value) {
					t.Errorf("record %d: header %d is %q, want %q", i, j, r.Headers[j], w.Headers[j])
				}
			}
			i++
		}
	}
}

// same tells null from empty.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func TestProduceRefuses(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(1, "t"))
	for _, tc := range []struct{ in, args, want string }{
		{"a:b\nc\n", "--key-separator :", `line 2: no ":"`},
		{"{}\n\n{\"value\":1}\n", "--json-lines", "line 3: not a record as JSON"},
		{"{}\n{} {}\n", "--json-lines", "line 2: more than one"},
		{"{}\n{\"valu\":\"x\"}\n", "--json-lines", "valu"},
		{"{}\n{\"valueBase64\":\"?\"}\n", "--json-lines", "not base64"},
	} {
		r := do(t, addr, tc.in, "produce t "+tc.args)
		r.want(t, exitFailed, tc.want, "1 record(s) were written before")
	}
	if n := strings.Count(do(t, addr, "", "consume t").out, "\n"); n != 5 {
		t.Errorf("%d records were written, want 5", n)
	}
	do(t, addr, strings.Repeat("x", 2<<20)+"\n", "produce t").want(t, exitFailed, "MESSAGE_TOO_LARGE", "max.message.bytes", "0 record(s)")
	do(t, addr, "x\n", "produce t --partition 9").want(t, exitFailed, "partition")
}

func TestProduceLargeWhereAllowed(t *testing.T) {
	_, addr := cluster(t)
	do(t, addr, "", "topic create t --partitions 1 --config max.message.bytes=4000000").want(t, 0)
	do(t, addr, strings.Repeat("x", 2<<20)+"\n"+strings.Repeat("y\n", 5000), "produce t").want(t, 0, "wrote 5001")
	if r := do(t, addr, "", "consume t"); r.code != 0 || len(r.out) != 2<<20+1+10_000 {
		t.Errorf("read %d bytes, code %d", len(r.out), r.code)
	}
}

func TestConsumeFrom(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(1, "t"))
	var in strings.Builder
	for i := range 5 {
		fmt.Fprintf(&in, "{\"value\":\"%d\",\"timestamp\":%d}\n", i, time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC).UnixMilli())
	}
	do(t, addr, in.String(), "produce t --json-lines").want(t, 0)
	for from, want := range map[string]string{
		"beginning": "0|1|2|3|4", "end": "", "0": "0|1|2|3|4", "3": "3|4", "99": "",
		"2026-01-03T00:00:00Z": "2|3|4", "2026-01-03T01:00:00+01:00": "2|3|4", "2026-01-04": "3|4", "2026-02-01": "", "1ns": "",
	} {
		r := do(t, addr, "", "consume t --from "+from)
		r.want(t, 0)
		if got := sorted(r.out); got != want {
			t.Errorf("from %s: read %q, want %q", from, got, want)
		}
	}
	if r := do(t, addr, "", "consume t --from 1 --count 2"); r.out != "1\n2\n" {
		t.Errorf("two from 1 on are %q", r.out)
	}
	if r := do(t, addr, "", "consume t --count 0"); r.out != "" || r.code != 0 {
		t.Errorf("none are %q", r.out)
	}
}

func TestParseFrom(t *testing.T) {
	now := time.Unix(1000, 0)
	if p, err := parseFrom("15m", now); err != nil || !p.at.Equal(now.Add(-15*time.Minute)) {
		t.Errorf("15m is %v, %v", p, err)
	}
	for _, text := range []string{"", "-1", "1.5", "Beginning", "2026-13-01", "-5m", "9223372036854775808"} {
		if p, err := parseFrom(text, now); err == nil {
			t.Errorf("%q is %+v", text, p)
		}
	}
}

func TestConsumeGroup(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(2, "t"))
	do(t, addr, "a\nb\nc\n", "produce t --partition 0").want(t, 0)
	do(t, addr, "d\n", "produce t --partition 1").want(t, 0)
	if got := sorted(do(t, addr, "", "consume t --group g").out); got != "a|b|c|d" {
		t.Errorf("the group read %q", got)
	}
	if r := do(t, addr, "", "consume t --group g"); r.out != "" || r.code != 0 {
		t.Errorf("the group read again %q, code %d", r.out, r.code)
	}
	do(t, addr, "e\nf\n", "produce t --partition 1").want(t, 0)
	if r := do(t, addr, "", "consume t --group g --count 1"); r.out != "e\n" {
		t.Errorf("one more is %q", r.out)
	}
	if r := do(t, addr, "", "consume t --group g --json"); !strings.Contains(r.out, `"value":"f"`) || strings.Count(r.out, "\n") != 1 {
		t.Errorf("the rest is %q", r.out)
	}
	do(t, addr, "", "consume none --group g --timeout 1s").want(t, exitFailed, "none")
}

// TestFollow waits for records that come later, until a signal.
func TestFollow(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(1, "t"))
	for _, more := range []string{"", "--group g"} {
		ctx, stop := context.WithCancel(t.Context())
		out, w := io.Pipe()
		code := make(chan int)
		go func() {
			code <- run(ctx, append(strings.Fields("consume t --follow --broker "+addr), strings.Fields(more)...), Programs{}, nil, w, io.Discard)
		}()
		lines := bufio.NewScanner(out)
		defer out.Close() // whatever is written later must not wait
		for i := range 3 {
			do(t, addr, fmt.Sprintf("%d\n", i), "produce t").want(t, 0)
			if !lines.Scan() {
				t.Fatal("the output ended")
			}
		}
		stop()
		go io.Copy(io.Discard, out)
		if got := <-code; got != exitOK {
			t.Errorf("%q: code %d", more, got)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	runWith(t, ctx, Programs{}, nil, "consume", "t", "--broker", addr).want(t, exitFailed)
}

// TestProduceUntilSignal keeps what was read before a signal, and does not wait for more input.
func TestProduceUntilSignal(t *testing.T) {
	c, addr := cluster(t, kfake.SeedTopics(1, "t"))
	produced := make(chan struct{}, 10)
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		produced <- struct{}{}
		return nil, nil, false
	})
	ctx, stop := context.WithCancel(t.Context())
	in, w := io.Pipe()
	defer w.Close()
	done := make(chan result)
	go func() { done <- runWith(t, ctx, Programs{}, in, "produce", "t", "--broker", addr) }()
	if _, err := io.WriteString(w, "one\n"); err != nil {
		t.Fatal(err)
	}
	<-produced
	stop()
	(<-done).want(t, 0, "wrote 1 record(s)")
}

// TestOffsetsWithoutRecords ends where compaction or a transaction left no record at the end.
func TestOffsetsWithoutRecords(t *testing.T) {
	c, addr := cluster(t, kfake.SeedTopics(1, "t"))
	do(t, addr, "a\nb\nc\n", "produce t").want(t, 0)
	const end = 5
	c.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.ListOffsetsRequest)
		if req.Topics[0].Partitions[0].Timestamp != -1 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		rp := kmsg.NewListOffsetsResponseTopicPartition()
		rp.Offset = end
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic, rt.Partitions = "t", append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		if len(req.Topics) == 0 || req.Topics[0].Partitions[0].FetchOffset < 3 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.HighWatermark = end
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID, rt.Partitions = req.Topics[0].Topic, req.Topics[0].TopicID, append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	for _, args := range []string{"consume t", "consume t --from 4", "consume t --group g"} {
		r := do(t, addr, "", args)
		r.want(t, 0)
		if want := map[string]string{"consume t --from 4": ""}[args]; args == "consume t --from 4" && r.out != want {
			t.Errorf("%s: read %q", args, r.out)
		} else if args != "consume t --from 4" && sorted(r.out) != "a|b|c" {
			t.Errorf("%s: read %q", args, r.out)
		}
	}
}

// TestTransactions shows committed and aborted records alike, but no markers.
func TestTransactions(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(1, "t"))
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(bool(commit)))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	if r := do(t, addr, "", "consume t --offsets"); r.out != "0:0\ttrue\n0:2\tfalse\n" {
		t.Errorf("read %q, code %d", r.out, r.code)
	}
}

// TestBrokerGoesAway ends a read that makes no progress.
func TestBrokerGoesAway(t *testing.T) {
	c, addr := cluster(t, kfake.SeedTopics(1, "t"))
	do(t, addr, "a\n", "produce t").want(t, 0)
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, io.ErrUnexpectedEOF, true
	})
	do(t, addr, "", "consume t --timeout 2s").want(t, exitFailed, "reading t, partition 0")
}
