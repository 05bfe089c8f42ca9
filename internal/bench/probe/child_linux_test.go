package probe

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// role names, in the environment, what the test binary is to be instead of a test.
const role = "GODWIT_PROBE_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "target":
		actTarget()
	case "tracer":
		actTracer()
	default:
		os.Exit(m.Run())
	}
}

// actTracer traces the process named by its argument until it is killed.
func actTracer() {
	pid, _ := strconv.Atoi(os.Args[1])
	_, err := TraceSyncsByPtrace(pid)
	fmt.Println("tracing", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// actTarget does, line by line, what it is told, and answers each line with "ok" or an error.
func actTarget() {
	t := &targetProcess{usr: make(chan os.Signal, 1)}
	signal.Notify(t.usr, unix.SIGUSR1)
	t.file = t.open("data", 0)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer := "ok"
		if err := t.obey(lines.Text()); err != nil {
			answer = err.Error()
		}
		fmt.Println(answer)
	}
}

type targetProcess struct {
	file, through *os.File
	usr           chan os.Signal
	hoard         []byte
}

func (t *targetProcess) open(name string, flags int) *os.File {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|flags, 0o600)
	if err != nil {
		panic(err)
	}
	return f
}

func (t *targetProcess) obey(line string) error {
	what, arg, _ := strings.Cut(line, " ")
	fd := int(t.file.Fd())
	switch what {
	case "write":
		_, err := t.file.WriteString(line)
		return err
	case "fsync":
		return unix.Fsync(fd)
	case "fdatasync":
		return unix.Fdatasync(fd)
	case "syncfs":
		return unix.Syncfs(fd)
	case "range":
		return unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	case "through":
		if t.through == nil {
			t.through = t.open("through", unix.O_DSYNC)
		}
		_, err := t.through.WriteString(line)
		return err
	case "elsewhere":
		f, err := os.OpenFile("elsewhere", os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	case "pwritev2":
		_, err := unix.Pwritev2(fd, [][]byte{[]byte(line)}, 0, unix.RWF_DSYNC)
		return err
	case "msync":
		return t.msync(unix.MS_SYNC)
	case "msync-async":
		return t.msync(unix.MS_ASYNC)
	case "failing":
		if err := unix.Fsync(-1); err != unix.EBADF {
			return fmt.Errorf("fsync of nothing: %w", err)
		}
		return nil
	case "thread":
		return inNewThread(func() error { return unix.Fsync(fd) })
	case "process":
		return t.inProcess(arg)
	case "signal":
		<-t.usr
		return nil
	case "busy":
		for range 4 {
			go busy()
		}
		return nil
	case "burn":
		return burn(arg)
	case "hoard":
		n, _ := strconv.Atoi(arg)
		t.hoard = make([]byte, n)
		for i := range t.hoard {
			t.hoard[i] = 1
		}
		return nil
	case "fill":
		n, _ := strconv.Atoi(arg)
		if _, err := t.file.Write(make([]byte, n)); err != nil {
			return err
		}
		return t.file.Sync()
	case "release":
		t.hoard = nil
		runtime.GC()
		return nil
	}
	return fmt.Errorf("what is %q", line)
}

func (t *targetProcess) msync(flags int) error {
	if err := t.file.Truncate(4096); err != nil {
		return err
	}
	m, err := unix.Mmap(int(t.file.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	m[0]++
	if err := unix.Msync(m, flags); err != nil {
		return err
	}
	return unix.Munmap(m)
}

// inNewThread runs f on a thread that has not been there before, and that ends afterwards.
func inNewThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		// While this one is locked, the goroutine below needs another.
		go func() {
			runtime.LockOSThread()
			result <- f()
		}()
		result <- nil
	}()
	<-result
	return <-result
}

// inProcess has a child do the same.
func (t *targetProcess) inProcess(line string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(exe)
	c.Stdin = strings.NewReader(line + "\n")
	c.Env = os.Environ()
	out, err := c.Output()
	if err == nil && string(out) != "ok\n" {
		err = fmt.Errorf("the child said %q", out)
	}
	return err
}

// busy makes system calls without end, on a thread of its own.
func busy() {
	runtime.LockOSThread()
	for {
		_ = unix.Getppid()
		runtime.Gosched()
	}
}

// burn takes CPU for a time, given in milliseconds.
func burn(arg string) error {
	ms, err := strconv.Atoi(arg)
	if err != nil {
		return err
	}
	begin := selfCPU()
	for selfCPU()-begin < time.Duration(ms)*time.Millisecond {
		for i := range 1000 {
			_ = strconv.Itoa(i)
		}
	}
	return nil
}

// child is a process under test, as its parent sees it.
type child struct {
	t       testing.TB
	dir     string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
}

// start runs the test binary in a role. It ends with the test.
func start(t testing.TB, as string, args ...string) *child {
	t.Helper()
	return startAs(t, as, os.Getuid(), args...)
}

// startAs does it as another user, if uid is not that of this process.
func startAs(t testing.TB, as string, uid int, args ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, dir: t.TempDir(), cmd: exec.Command(exe, args...)}
	c.cmd.Dir = c.dir
	// A program with the race detector otherwise waits for a second before it exits.
	c.cmd.Env = append(os.Environ(), role+"="+as, "GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = os.Stderr
	if uid != os.Getuid() {
		// The binary may be where that user cannot get to by its path.
		c.cmd.Path = "/proc/self/exe"
		c.cmd.Dir = "/"
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.answers = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
	})
	if as == "target" {
		c.do("write") // it is ready
	}
	return c
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) path(name string) string {
	p, err := filepath.EvalSymlinks(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

func (c *child) tell(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) answer() string {
	c.t.Helper()
	line, err := c.answers.ReadString('\n')
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return strings.TrimSpace(line)
}

// do has the target do things, one after the other.
func (c *child) do(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		c.tell(line)
		if got := c.answer(); got != "ok" {
			c.t.Fatalf("%s: %s", line, got)
		}
	}
}

// send is one message to the target: what it does before it acknowledges, and what after.
func (c *child) send(before, after []string) Interval {
	c.t.Helper()
	a := Interval{Sent: time.Now()}
	c.do(before...)
	a.Acked = time.Now()
	c.do(after...)
	return a
}

// end checks that the target still works, untraced, and that it exits as it should.
func (c *child) end() {
	c.t.Helper()
	for _, tid := range numbered(procPath(c.pid(), "task")) {
		if by := tracerOf(tid); by != 0 {
			c.t.Errorf("thread %d is still traced, by %d", tid, by)
		}
		if s := stateOf(tid); s == 't' || s == 'T' {
			c.t.Errorf("thread %d is stopped: %c", tid, s)
		}
	}
	c.do("write", "fsync", "thread", "process write")
	if err := c.in.Close(); err != nil {
		c.t.Error(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("the target ended with %v", err)
	}
}

// eventually waits until a condition of another process holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
