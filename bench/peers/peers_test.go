//go:build peers

// Package peers has scripts that run other brokers on loopback. There is no code, but this test of them.
package peers

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"godwit/internal/bench/target"
)

// protocols of the scripts' configurations; "" stands for all that are not named.
var protocols = map[string]map[string]string{
	"kafka":     {"": "kafka"},
	"rabbitmq":  {"": "amqp"},
	"nats":      {"": "jetstream", "core": "nats"},
	"mosquitto": {"": "mqtt"},
	"godwit":    {"": "kafka"},
}

// script is one of the scripts with its directory.
type script struct {
	t    *testing.T
	path string
	dir  string
	env  []string // beside that of the test
}

func newScript(t *testing.T, name string) *script {
	t.Helper()
	path, err := filepath.Abs(name + ".sh")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, path: path, dir: filepath.Join(t.TempDir(), "a peer")}
	t.Cleanup(func() {
		if out, err := exec.Command(path, "stop", s.dir).CombinedOutput(); err != nil {
			t.Errorf("stop: %v: %s", err, out)
		}
	})
	return s
}

// try runs a verb and answers what it printed.
func (s *script) try(args ...string) (stdout, stderr string, err error) {
	var out, diagnosis bytes.Buffer
	c := exec.Command(s.path, args...)
	c.Env = append(os.Environ(), s.env...)
	c.Stdout, c.Stderr = &out, &diagnosis
	err = c.Run()
	return out.String(), diagnosis.String(), err
}

// do runs a verb that has to work.
func (s *script) do(args ...string) string {
	s.t.Helper()
	out, stderr, err := s.try(args...)
	if err != nil {
		s.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, stderr)
	}
	return out
}

// refuses runs a verb that has to fail and say why.
func (s *script) refuses(why string, args ...string) {
	s.t.Helper()
	out, stderr, err := s.try(args...)
	if err == nil || out != "" || !strings.Contains(stderr, why) {
		s.t.Errorf("%s: error %v, printed %q and %q, want an error about %q", strings.Join(args, " "), err, out, stderr, why)
	}
}

// parse reads the one line that start and restart print, and looks at the process it names.
func (s *script) parse(out string) *target.Target {
	s.t.Helper()
	line, more, _ := strings.Cut(out, "\n")
	if more != "" {
		s.t.Errorf("more than a line: %q", out)
	}
	x, err := target.Parse(line)
	if err != nil {
		s.t.Fatal(err)
	}
	if x.Version == "" || x.Config == "" || x.Script != s.path || x.Dir != s.dir || x.Data != filepath.Join(s.dir, "data") {
		s.t.Errorf("printed %s", line)
	}
	c, err := net.DialTimeout("tcp", x.URL.Host, 5*time.Second)
	if err != nil {
		s.t.Fatalf("started, but: %v", err)
	}
	c.Close()
	if !listens(s.t, x.PID, x.URL.Port()) {
		s.t.Errorf("process %d does not listen on port %s", x.PID, x.URL.Port())
	}
	return x
}

// listens says whether the process has a socket that listens on the port.
func listens(t *testing.T, pid int, port string) bool {
	t.Helper()
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	suffix := ":" + strings.ToUpper(strconv.FormatUint(1<<16|n, 16)[1:])
	for _, name := range []string{"tcp", "tcp6"} {
		table, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "net", name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(table)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], suffix) && holds(pid, "socket:["+f[9]+"]") {
				return true
			}
		}
	}
	return false
}

// holds says whether the process has something open that begins so, its directory and program included.
func holds(pid int, prefix string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	links, _ := filepath.Glob(filepath.Join(proc, "fd", "*"))
	for _, l := range append(links, filepath.Join(proc, "cwd")) {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, prefix) {
			return true
		}
	}
	return false
}

// left are the processes that use something in the directory.
func left(t *testing.T, dir string) (pids []int) {
	t.Helper()
	all, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if pid, err := strconv.Atoi(e.Name()); err == nil && holds(pid, dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone waits until nothing runs in the directory any more: helpers of a broker may end shortly after it.
func (s *script) gone(after string) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Second); ; <-tick.C {
		pids := left(s.t, s.dir)
		if len(pids) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("after %s processes %v remain", after, pids)
		}
	}
}

// dead says that a process has ended with all its threads: nobody has the ID, or all that is left is an exit code.
func dead(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	return bytes.Contains(stat, []byte(") Z ")) && len(threads) <= 1 && err == nil
}

// configs are the configurations of a script, with what they say of themselves.
func (s *script) configs() map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(s.do("configs")) {
		name, about, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = about
	}
	return all
}

// TestScripts takes every script in every configuration through its verbs.
func TestScripts(t *testing.T) {
	found, err := filepath.Glob("*.sh")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(protocols)+1 {
		t.Errorf("scripts %v: want peer.sh and those of %v", found, protocols)
	}
	for name := range protocols {
		s := newScript(t, name)
		s.do("install")
		if v := s.do("versions"); strings.TrimSpace(v) == "" {
			t.Errorf("%s tells no version", name)
		}
		configs := s.configs()
		if configs["default"] == "" || configs["synced"] == "" {
			t.Errorf("%s has only the configurations %v", name, configs)
		}
		for config, about := range configs {
			t.Run(name+"/"+config, func(t *testing.T) {
				t.Parallel()
				scheme, ok := protocols[name][config]
				if !ok {
					scheme = protocols[name][""]
				}
				testLife(t, newScript(t, name), name, config, about, scheme)
			})
		}
	}
}

// testLife starts a broker, restarts it, kills it, starts it on what it left, and stops it.
func testLife(t *testing.T, s *script, name, config, about, scheme string) {
	begun := s.parse(s.do("start", s.dir, config, "0"))
	wantName := name
	if config != "default" {
		wantName += "-" + config
	}
	if begun.Protocol != scheme || begun.Name != wantName || begun.Config != about {
		t.Errorf("started %s %q, %q, want %s %q, %q", begun.Protocol, begun.Name, begun.Config, scheme, wantName, about)
	}
	s.refuses("runs already", "start", s.dir, config)
	if dead(begun.PID) {
		t.Error("a second start ended the broker")
	}
	stored := entries(t, begun.Data)

	again := s.parse(s.do("restart", s.dir))
	if !dead(begun.PID) {
		t.Error("after a restart the first process is still there")
	}
	same := *begun.URL
	q := same.Query()
	q.Set("pid", strconv.Itoa(again.PID))
	same.RawQuery = q.Encode()
	if now := *again.URL; now.Host != same.Host || now.Query().Encode() != same.RawQuery {
		t.Errorf("restarted as %s, want only another process of %s", &now, &same)
	}
	for _, name := range stored {
		if _, err := os.Stat(filepath.Join(again.Data, name)); err != nil {
			t.Errorf("a restart lost data: %v", err)
		}
	}

	s.do("kill", s.dir)
	if !dead(again.PID) {
		t.Error("a killed broker lives on")
	}
	if c, err := net.DialTimeout("tcp", again.URL.Host, 5*time.Second); err == nil {
		c.Close()
		t.Error("a killed broker accepts connections")
	}
	s.do("kill", s.dir) // nothing to do

	after := s.parse(s.do("restart", s.dir))
	if after.URL.Host != begun.URL.Host || after.PID == again.PID {
		t.Errorf("after a crash %s process %d, want %s and another one than %d", after.URL.Host, after.PID, begun.URL.Host, again.PID)
	}

	s.do("stop", s.dir)
	if !dead(after.PID) {
		t.Error("a stopped broker lives on")
	}
	s.gone("stop")
	s.do("stop", s.dir)
	s.do("stop", filepath.Join(s.dir, "never"))
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Type()&fs.ModeSocket == 0 {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestPort starts on a port that was asked for, and not where somebody else listens.
func TestPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(t, "nats")
	s.do("install")
	s.refuses("the broker ended", "start", s.dir, "default", port)
	s.gone("a start that failed")
	l.Close()
	if x := s.parse(s.do("start", s.dir, "default", port)); x.URL.Port() != port {
		t.Errorf("started on port %s, want %s", x.URL.Port(), port)
	}
}

// TestRefusals misuses the scripts.
func TestRefusals(t *testing.T) {
	for name := range protocols {
		s := newScript(t, name)
		s.do("install")
		s.refuses("no configuration 'other': there are default", "start", s.dir, "other")
		s.refuses("nothing was started", "restart", s.dir)
		s.refuses("start DIR", "start")
		s.refuses("start DIR", "begin", s.dir)
		s.env = []string{"GODWIT_PEER_MEMORY=1GiB"}
		s.refuses("not a number of bytes", "start", s.dir)
	}
}

// TestMemory has a broker in less memory, or is told why that cannot be.
func TestMemory(t *testing.T) {
	const limit = 256 << 20
	s := newScript(t, "nats")
	s.do("install")
	s.env = []string{"GODWIT_PEER_MEMORY=" + strconv.Itoa(limit)}
	out, stderr, err := s.try("start", s.dir)
	if err != nil {
		if os.Getuid() == 0 || !strings.Contains(stderr, "needs a memory cgroup") {
			t.Fatalf("start: %v: %s", err, stderr)
		}
		return // an ordinary user has no such thing, and was told
	}
	s.env = nil // the directory remembers
	for _, out := range []string{out, s.do("restart", s.dir)} {
		x, err := target.Parse(strings.TrimSpace(out))
		if err != nil {
			t.Fatal(err)
		}
		if x.Memory != limit {
			t.Errorf("the URL tells of %d bytes, want %d", x.Memory, limit)
		}
	}
	x := s.parse(s.do("restart", s.dir))
	group := memoryGroup(t, x.PID)
	if got := limitOf(t, group); got != strconv.Itoa(limit) {
		t.Errorf("%s is limited to %s bytes, want %d", group, got, limit)
	}
	s.do("stop", s.dir)
	if _, err := os.Stat(group); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a stop %s: %v", group, err)
	}
	if x := s.parse(s.do("start", s.dir)); x.Memory != 0 || memoryGroup(t, x.PID) == group {
		t.Error("started without a limit, it has one")
	}
}

// memoryGroup is the directory of the memory cgroup that the process is in.
func memoryGroup(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	unified := ""
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) == 3 && f[1] == "memory":
			return filepath.Join("/sys/fs/cgroup/memory", f[2])
		case len(f) == 3 && f[1] == "":
			unified = filepath.Join("/sys/fs/cgroup", f[2])
		}
	}
	return unified
}

func limitOf(t *testing.T, group string) string {
	t.Helper()
	for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
		if text, err := os.ReadFile(filepath.Join(group, name)); err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	t.Fatalf("%s has no memory limit", group)
	return ""
}
