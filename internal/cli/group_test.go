package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// member joins a group and has read, with its position committed, at least one record.
func member(t *testing.T, addr, group, topic string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ClientID("worker"), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if fs := cl.PollFetches(ctx); fs.Err() != nil || fs.NumRecords() == 0 {
		t.Fatal(fs.Err(), fs.NumRecords())
	}
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	return cl
}

// TestGroups works on groups of a broker that is not Godwit.
func TestGroups(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(2, "t", "u"))
	run := func(args string) result {
		t.Helper()
		return do(t, addr, "", args)
	}
	run("group list").want(t, 0, "There are no groups", "godwit consume")
	if r := run("group list --json"); r.out != "" || r.code != 0 {
		t.Errorf("no groups are listed as %q", r.out)
	}
	do(t, addr, "1\n2\n3\n4\n5\n", "produce t --partition 0").want(t, 0)
	do(t, addr, "1\n2\n", "produce u --partition 1").want(t, 0)
	m := member(t, addr, "g", "t")
	do(t, addr, "6\n7\n", "produce t --partition 0").want(t, 0)

	run("group list").want(t, 0, "GROUP  TYPE", "OFFSETS", "g      ", "Stable")
	run("group list --json").want(t, 0, `"group":"g"`, `"members":1`, `"lag":null`, `"offsetsBehind":2`)
	run("group describe g").want(t, 0, "Group g, Stable", "worker", "t:0-1", "OFFSETS", "see --http")
	run("group describe g --http 127.0.0.1:1").want(t, exitFailed, "--http of godwit serve")
	var d groupView
	if err := json.Unmarshal([]byte(run("group describe g --json").out), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Members) != 1 || len(d.Partitions) != 2 || *d.Partitions[0].Committed != 5 || *d.Partitions[0].OffsetsBehind != 2 || d.Partitions[0].End != 7 ||
		d.Partitions[0].Member != d.Members[0].MemberID || d.Partitions[1].Committed != nil || d.Lag != nil || *d.OffsetsBehind != 2 {
		t.Errorf("described %+v", d)
	}
	run("group describe none").want(t, exitFailed, "none: GROUP_ID_NOT_FOUND", "godwit group list")

	run("group reset-offsets g --topic t --to earliest").want(t, exitFailed, "g has 1 member(s), worker at ", "stop them first")
	run("group delete g none").want(t, exitFailed, "g has 1 member(s), worker at ", "NON_EMPTY_GROUP", "none: ")
	run("group delete-offsets g --topic t").want(t, exitFailed, "GROUP_SUBSCRIBED_TO_TOPIC")
	m.Close()

	run("group delete-offsets g --topic t:1 --topic u").want(t, exitFailed, "no positions there")
	run("group delete-offsets g --topic t:0,1 --json").want(t, 0, `"group":"g","partition":0,"topic":"t"`)
	run("group delete-offsets none --topic t").want(t, exitFailed, "none")
	run("group delete g").want(t, 0, "deleted g\n")
	run("group list").want(t, 0, "There are no groups")
}

func TestResetOffsets(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(2, "t", "u"))
	var lines strings.Builder
	for i := range 10 {
		fmt.Fprintf(&lines, `{"value":"v","timestamp":%d}`+"\n", 1_700_000_000_000+int64(i)*60_000)
	}
	do(t, addr, lines.String(), "produce t --partition 0 --json-lines").want(t, 0)
	do(t, addr, "x\n", "produce u --partition 0").want(t, 0)
	run := func(args string) result {
		t.Helper()
		return do(t, addr, "", "group reset-offsets g "+args)
	}
	moves := func(args string) (out []move) {
		t.Helper()
		r := run(args + " --json")
		r.want(t, 0)
		for line := range strings.Lines(r.out) {
			var m move
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			out = append(out, m)
		}
		return out
	}
	run("--all-topics --to latest").want(t, exitFailed, "GROUP_ID_NOT_FOUND", "godwit group list")
	run("--topic t --shift=-1").want(t, exitFailed, "no position to move from")
	run("--topic none --to latest").want(t, exitFailed, "UNKNOWN_TOPIC_OR_PARTITION")
	run("--topic t:2 --to latest").want(t, exitFailed, "there is no 2")
	run("--topic t --to latest").want(t, 0, "This is only a plan: there is no group g yet")
	do(t, addr, "", "group list").want(t, 0, "There are no groups")

	run("--topic t --to latest --execute").want(t, 0, "set 2 position(s) of g\n")
	run("--topic t --to earliest").want(t, 0, "10    0   -10", "This is only a plan: --execute")
	for _, tc := range []struct {
		args string
		to   int64
		note string
	}{
		{"--topic t:0 --to earliest", 0, ""},
		{"--topic t:0 --to latest", 10, ""},
		{"--topic t:0 --to 4", 4, ""},
		{"--topic t:0 --to 11", 10, "11 is behind the end"},
		{"--topic t:0 --shift=-3", 7, ""},
		{"--topic t:0 --shift=-13", 0, "-3 is before the start"},
		{"--topic t:0 --shift=5", 10, "15 is behind the end"},
		{"--topic t:0 --to 2023-11-14T22:15:20Z", 2, ""}, // the second record is of 22:14:20
		{"--topic t:0 --to 2023-11-14", 0, ""},
		{"--topic t:0 --to 1ns", 10, "no record is that young: the end"},
	} {
		got := moves(tc.args)
		if len(got) != 1 || got[0].To != tc.to || got[0].Note != tc.note || *got[0].From != 10 || got[0].End != 10 || got[0].Done {
			t.Errorf("%s: %+v, want %+v", tc.args, got, tc)
		}
	}
	if got := moves("--topic t:0 --topic u:0 --to 3 --execute"); len(got) != 2 || !got[0].Done || got[1].Topic != "u" || got[1].From != nil || got[1].To != 1 || !got[1].Done {
		t.Errorf("set %+v", got)
	}
	if got := moves("--all-topics --to earliest --execute"); len(got) != 3 || *got[0].From != 3 || *got[2].From != 1 || got[2].To != 0 {
		t.Errorf("set %+v", got)
	}
	do(t, addr, "", "group describe g").want(t, 0, "t      0          0      0         10   10", "u      0          0      0         1    1")
}

// TestLagOverHTTP takes lag from an address that the broker names, if the cluster is the same.
func TestLagOverHTTP(t *testing.T) {
	answer := `{"cluster":"c","lag":{"records":3,"bytes":2048,"seconds":7261.25},"partitions":[
		{"topic":"t","partition":0,"committed":1,"start":0,"end":9,"lag":{"records":3,"bytes":2048,"seconds":7261.25}}]}`
	list := `{"cluster":"c","groups":[{"group":"g","lag":{"records":3,"bytes":2048,"seconds":null}}]}`
	var asked string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		if strings.HasPrefix(r.URL.Path, "/v1/groups/") {
			fmt.Fprint(w, answer)
		} else {
			fmt.Fprint(w, list)
		}
	}))
	defer web.Close()
	host := strings.TrimPrefix(web.URL, "http://")
	_, addr := cluster(t, kfake.SeedTopics(1, "t"), kfake.ClusterID("c"), kfake.BrokerConfigs(map[string]string{"godwit.http": host}))
	do(t, addr, "1\n2\n3\n4\n5\n", "produce t").want(t, 0)
	do(t, addr, "", "group reset-offsets g --topic t --to 1 --execute").want(t, 0)

	do(t, addr, "", "group describe g").want(t, 0, "LAG  SIZE     AGE", "9    3    2.0 KiB  2h1m1s")
	if asked != "/v1/groups/g" {
		t.Errorf("asked for %s", asked)
	}
	do(t, addr, "", "group describe g --json --read-committed").want(t, 0, `"lag":{"records":3,"bytes":2048,"seconds":7261.25}`)
	if asked != "/v1/groups/g?isolation=read_committed" {
		t.Errorf("asked for %s", asked)
	}
	do(t, addr, "", "group list").want(t, 0, "3    2.0 KiB  no timestamp")
	do(t, addr, "", "group list --http off").want(t, 0, "OFFSETS")
	do(t, addr, "", "group list --http "+web.URL+"/").want(t, 0, "2.0 KiB")

	// Another cluster's lag, or anything else that answers there, is not taken for this one's; when it was asked for by name, that is told.
	answer, list = strings.Replace(answer, `"c"`, `"other"`, 1), `{"groups":[]}`
	do(t, addr, "", "group describe g").want(t, 0, "OFFSETS")
	do(t, addr, "", "group list").want(t, 0, "OFFSETS")
	do(t, addr, "", "group list --http "+host).want(t, exitFailed, "not answered by a Godwit broker")
	web.Close()
	do(t, addr, "", "group list").want(t, 0, "OFFSETS")
	do(t, addr, "", "group list --http "+host).want(t, exitFailed, "does not answer")
}

func TestGroupCommandLinesWithoutSense(t *testing.T) {
	for args, want := range map[string]string{
		"group reset-offsets g --to latest":                        "--topic or --all-topics",
		"group reset-offsets g --to latest --all-topics --topic t": "--topic or --all-topics",
		"group reset-offsets g --topic t":                          "--to or --shift",
		"group reset-offsets g --topic t --to 1 --shift=1":         "--to or --shift",
		"group reset-offsets g --topic t --to yesterday":           "15m for so long ago",
		"group reset-offsets g --topic t:x --to latest":            "not the number of a partition",
		"group reset-offsets g --topic t:-1 --to latest":           "not the number of a partition",
		"group reset-offsets g --topic :1 --to latest":             "names no topic",
		"group delete-offsets g":                                   "--topic",
		"group delete-offsets g --topic t:":                        "not the number of a partition",
		"group delete":                                             "name",
		"group list --http a%zz":                                   "--http",
	} {
		_, addr := "", "127.0.0.1:1"
		if strings.Contains(args, "--http") {
			_, addr = cluster(t)
		}
		do(t, addr, "", args).want(t, exitUsage, want)
	}
}

func TestGroupTexts(t *testing.T) {
	for want, seconds := range map[string]float64{"0s": 0.01, "1.2s": 1.234, "2m3s": 123.4, "1h5m": 3900, "3d2h": 266400, "47h59m": 172740} {
		if got := (&groupLag{Records: 1, Seconds: &seconds}).age(); got != want {
			t.Errorf("%v s is %q, want %q", seconds, got, want)
		}
	}
	for want, all := range map[string][]partition{
		"":              nil,
		"t:3":           {{"t", 3}},
		"t:0-2,5":       {{"t", 5}, {"t", 0}, {"t", 2}, {"t", 1}},
		"a:1 t:0,2-3":   {{"t", 3}, {"t", 2}, {"t", 0}, {"a", 1}},
		"a:0-1 b:2 c:3": {{"b", 2}, {"c", 3}, {"a", 1}, {"a", 0}},
	} {
		if got := rangesText(all); got != want {
			t.Errorf("%v is %q, want %q", all, got, want)
		}
	}
	got, err := parseTopics([]string{"a", "b:1,2", "a:3", "b:4", "c:1", "c"})
	if err != nil || fmt.Sprint(got) != "map[a:[] b:[1 2 4] c:[]]" {
		t.Errorf("topics %v, %v", got, err)
	}
}
