// Package target is what the command line says of a broker to be measured: an address, and what is known of
// its process.
package target

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"godwit/internal/bench/driver"
)

// Protocols are the schemes of target URLs.
var Protocols = []string{"kafka", "amqp", "mqtt", "nats", "jetstream"}

// ErrNoScript says that a target cannot be restarted or killed from here.
var ErrNoScript = errors.New("the target's URL names no script to control it with (script= and dir=, see docs/benchmark.md)")

// Target is one broker in one configuration.
type Target struct {
	URL      *url.URL
	Name     string // as reports show it
	Protocol string // one of Protocols
	PID      int    // of the broker's process on this machine; 0 if unknown
	Version  string // as its starter says; empty if unknown
	Config   string // what is special about its configuration, in words
	Memory   int64  // that its process may have, page cache included, in bytes; 0 is all of the machine's
	Data     string // directory of its data on this machine; empty if unknown
	Script   string // controls it, see Restart; empty if nothing does
	Dir      string // the script's argument
}

// Parse reads a target URL: PROTOCOL://[USER:PASSWORD@]HOST:PORT[/PATH][?SETTINGS]. The settings name, pid,
// version, config, memory, data, script and dir are about the process; all others belong to the protocol's driver.
func Parse(s string) (*Target, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("target %q is not a URL such as kafka://127.0.0.1:9092: %w", s, err)
	}
	known := false
	for _, p := range Protocols {
		known = known || p == u.Scheme
	}
	if !known {
		return nil, fmt.Errorf("target %q: the protocol is one of %s, for example kafka://127.0.0.1:9092", u.Redacted(), strings.Join(Protocols, ", "))
	}
	if u.Port() == "" {
		return nil, fmt.Errorf("target %q needs HOST:PORT, for example %s://127.0.0.1:9092", u.Redacted(), u.Scheme)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("target %q: its settings cannot be read: %w", u.Redacted(), err)
	}
	t := &Target{
		URL: u, Protocol: u.Scheme, Name: q.Get("name"), Version: q.Get("version"), Config: q.Get("config"),
		Data: q.Get("data"), Script: q.Get("script"), Dir: q.Get("dir"),
	}
	if t.Name == "" {
		t.Name = u.Scheme
	}
	if p := q.Get("pid"); p != "" {
		if t.PID, err = strconv.Atoi(p); err != nil || t.PID <= 0 {
			return nil, fmt.Errorf("target %q: pid=%s is not a process ID", u.Redacted(), p)
		}
	}
	if m := q.Get("memory"); m != "" {
		if t.Memory, err = strconv.ParseInt(m, 10, 64); err != nil || t.Memory <= 0 {
			return nil, fmt.Errorf("target %q: memory=%s is not a number of bytes", u.Redacted(), m)
		}
	}
	return t, nil
}

// ParseAll reads the targets of a run and gives those with equal names numbers.
func ParseAll(urls []string) ([]*Target, error) {
	var all []*Target
	seen := make(map[string]int)
	for _, s := range urls {
		t, err := Parse(s)
		if err != nil {
			return nil, err
		}
		if seen[t.Name]++; seen[t.Name] > 1 {
			t.Name += "-" + strconv.Itoa(seen[t.Name])
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, errors.New("no target: say for example --target kafka://127.0.0.1:9092")
	}
	return all, nil
}

// Shown is the URL without its password and without what describes the process.
func (t *Target) Shown() string {
	u := *t.URL
	q := u.Query()
	for _, k := range driver.OfProcess {
		q.Del(k)
	}
	u.RawQuery = q.Encode()
	return u.Redacted()
}

// Local says whether the target is reached over this machine's loopback.
func (t *Target) Local() bool {
	h := t.URL.Hostname()
	return h == "localhost" || h == "::1" || strings.HasPrefix(h, "127.")
}

// Restart has the target's script stop it gracefully and start it again on the same address with the same data,
// and takes the new process's ID. Fails with ErrNoScript.
func (t *Target) Restart(ctx context.Context) error {
	out, err := t.control(ctx, "restart")
	if err != nil {
		return err
	}
	now, err := Parse(strings.TrimSpace(out))
	if err != nil {
		return fmt.Errorf("%s restart: %w", t.Script, err)
	}
	if now.URL.Host != t.URL.Host {
		return fmt.Errorf("%s restart: the target moved from %s to %s", t.Script, t.URL.Host, now.URL.Host)
	}
	t.PID = now.PID
	return nil
}

// controlTimeout is how long a script may take: brokers recover large logs.
const controlTimeout = 10 * time.Minute

// control runs the script with a verb.
func (t *Target) control(ctx context.Context, verb string) (string, error) {
	if t.Script == "" || t.Dir == "" {
		return "", ErrNoScript
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, t.Script, verb, t.Dir)
	c.WaitDelay = time.Second // what the script started may hold its output open
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", t.Script, verb, err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
