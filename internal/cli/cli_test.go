package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"godwit/internal/settings"
)

// cluster is an in-memory Kafka that commands talk to.
func cluster(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, string) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, c.ListenAddrs()[0]
}

// result is what a command left behind.
type result struct {
	code     int
	out, err string
}

// runIn runs a command line with a text as its input.
func runIn(t *testing.T, in string, args ...string) result {
	t.Helper()
	return runWith(t, context.Background(), Programs{Version: "v1"}, strings.NewReader(in), args...)
}

func runWith(t *testing.T, ctx context.Context, p Programs, in io.Reader, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(ctx, args, p, in, &out, &errOut)
	return result{code, out.String(), errOut.String()}
}

// want fails unless the command ended with the code, and its output and errors contain all the texts.
func (r result) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			t.Errorf("%q is neither in the output nor in the errors", text)
		}
	}
	if r.code != code || t.Failed() {
		t.Fatalf("code %d, want %d\nout: %s\nerr: %s", r.code, code, r.out, r.err)
	}
}

func TestHelp(t *testing.T) {
	runIn(t, "", "--help").want(t, 0, "godwit serve", "Exit codes", "topic create", "GODWIT_BROKER")
	for _, command := range []string{"serve", "topic create", "topic list", "topic describe", "topic alter", "topic delete",
		"group list", "group describe", "group reset-offsets", "group delete", "group delete-offsets",
		"txn list", "txn describe", "txn abort", "produce", "consume", "info", "fsck"} {
		r := runIn(t, "", append(strings.Fields(command), "--help")...)
		r.want(t, 0, "Usage: godwit "+command, "    ")
		if !strings.Contains(r.out, " godwit "+command+" ") && !strings.Contains(r.out, "    godwit "+command+"\n") {
			t.Errorf("%s: no example", command)
		}
		if client := command != "serve" && command != "fsck"; client {
			r.want(t, 0, "--broker=HOST:PORT", "$GODWIT_BROKER", "--json")
			if n := strings.Count(r.out, "$GODWIT_"); n != 1 {
				t.Errorf("%s: %d variables, want only GODWIT_BROKER:\n%s", command, n, r.out)
			}
		}
	}
}

func TestCommandLinesWithoutSense(t *testing.T) {
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"", []string{"Try: godwit --help"}},
		{"frob", []string{"frob", "Try: godwit --help"}},
		{"topic", []string{"create", "Try: godwit topic --help"}},
		{"topic frob", []string{"frob", "Try: godwit topic --help"}},
		{"topic lst", []string{"list"}},
		{"topic create", []string{"name", "Try: godwit topic create --help"}},
		{"topic alter t", []string{"nothing to change"}},
		{"consume", []string{"topic"}},
		{"consume t --from yesterday", []string{"yesterday", "2026-01-31T12:00:00Z"}},
		{"consume t --from=-5", []string{"-5"}},
		{"consume t --count=-7", []string{"-7"}},
		{"consume t --group g --from end", []string{"--from"}},
		{"consume t --group g --partition 1", []string{"--partition"}},
		{"consume t --partitions 1", []string{"--partition"}},
		{"produce t --header x", []string{"NAME=VALUE"}},
		{"produce t --compression zip", []string{"zstd"}},
		{"topic list --broker 9092", []string{"HOST:PORT"}},
		{"topic list --timeout 0s", []string{"--timeout"}},
		{"topic list --timeout 5", []string{"timeout"}},
	} {
		r := runIn(t, "", strings.Fields(tc.args)...)
		if r.code != exitUsage || r.out != "" {
			t.Errorf("%q: code %d, want %d; printed %q", tc.args, r.code, exitUsage, r.out)
		}
		for _, w := range tc.want {
			if !strings.Contains(r.err, w) {
				t.Errorf("%q: %q is not in %q", tc.args, w, r.err)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	runIn(t, "", "version").want(t, 0, "godwit v1 (go")
	runIn(t, "", "version", "--json").want(t, 0, `"version":"v1"`)
}

func TestFsck(t *testing.T) {
	for _, tc := range []struct {
		ok   bool
		err  error
		code int
	}{{true, nil, exitOK}, {false, nil, exitFound}, {false, errors.New("in use"), exitFailed}} {
		p := Programs{Fsck: func(_ context.Context, dir string, out io.Writer, asJSON bool) (bool, error) {
			if dir != "/d" || !asJSON {
				t.Errorf("asked for %q, %v", dir, asJSON)
			}
			return tc.ok, tc.err
		}}
		if r := runWith(t, context.Background(), p, nil, "fsck", "--data", "/d", "--json"); r.code != tc.code {
			t.Errorf("%v, %v: code %d, want %d", tc.ok, tc.err, r.code, tc.code)
		}
	}
	t.Setenv("GODWIT_DATA", "/e")
	p := Programs{Fsck: func(_ context.Context, dir string, _ io.Writer, _ bool) (bool, error) { return dir == "/e", nil }}
	runWith(t, context.Background(), p, nil, "fsck").want(t, 0)
}

func TestNoBroker(t *testing.T) {
	for _, args := range []string{"topic list", "topic create t", "topic describe t", "topic delete t", "group list", "group delete g", "consume t", "consume t --group g", "produce t", "info"} {
		r := runIn(t, "x\n", append(strings.Fields(args), "--broker", "127.0.0.1:1")...)
		r.want(t, exitFailed, "no broker answers at 127.0.0.1:1", "godwit serve", "--broker")
	}
}

// TestBrokerFromEnvironment also checks that what serve is told does not reach other commands.
func TestBrokerFromEnvironment(t *testing.T) {
	_, addr := cluster(t, kfake.SeedTopics(1, "t"))
	t.Setenv("GODWIT_BROKER", addr)
	t.Setenv("GODWIT_CONFIG", "/no/such/file")
	t.Setenv("GODWIT_HTTP", "127.0.0.1:1")
	runIn(t, "", "topic", "list").want(t, 0, "t ")
	runIn(t, "", "topic", "create", "new").want(t, 0, "created new")
	runIn(t, "", "info").want(t, 0)
	runIn(t, "", "topic", "list", "--broker", "127.0.0.1:1").want(t, exitFailed, "127.0.0.1:1")
}

// serveWith runs serve and returns the settings that reached the broker.
func serveWith(t *testing.T, args ...string) (*settings.Settings, result) {
	t.Helper()
	var got *settings.Settings
	p := Programs{Version: "v1", Serve: func(_ context.Context, s *settings.Settings, _ *slog.Logger, ready func(map[string]string)) error {
		got = s
		ready(map[string]string{"kafka": "127.0.0.1:7", "http": "127.0.0.1:8"})
		return nil
	}}
	r := runWith(t, context.Background(), p, nil, append([]string{"serve"}, args...)...)
	return got, r
}
