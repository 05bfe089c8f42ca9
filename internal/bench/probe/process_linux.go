package probe

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is USER_HZ, in which /proc reports CPU time and start times: 100 per second on every architecture Go runs on.
const tick = time.Second / 100

// procStat is what is needed of /proc/PID/stat.
type procStat struct {
	state   byte
	parent  int
	cpu     time.Duration // of all threads, and of children that were waited for
	threads int
	started uint64 // in ticks since boot; with the pid it names a process for good
}

// readStat reads /proc/PID/stat; a zombie has ended.
func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return procStat{}, fmt.Errorf("process %d: %w", pid, ErrEnded)
	}
	s, err := statOf(string(b))
	if err == nil && (s.state == 'Z' || s.state == 'X') {
		err = fmt.Errorf("process %d: %w", pid, ErrEnded)
	}
	return s, err
}

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

// statOf takes a stat line apart; the command in its second field may hold spaces and parentheses.
func statOf(line string) (s procStat, err error) {
	f := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	// proc(5) counts from 1 and the command is the second: f[0] is its field 3.
	if len(f) < 20 {
		return s, fmt.Errorf("%d fields after the command in %q, want 20", len(f), line)
	}
	num := func(field int) (n int64) {
		v, e := strconv.ParseInt(f[field-3], 10, 64)
		if e != nil && err == nil {
			err = fmt.Errorf("field %d of %q: %w", field, line, e)
		}
		return v
	}
	s.state = f[0][0]
	s.parent = int(num(4))
	s.cpu = time.Duration(num(14)+num(15)+num(16)+num(17)) * tick
	s.threads = int(num(20))
	s.started = uint64(num(22))
	return s, err
}

// valueOf finds "NAME: N" among the lines of a /proc file and returns N.
func valueOf(text, name string) (int64, bool) {
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(k) != name {
			continue
		}
		f := strings.Fields(v)
		if len(f) == 0 {
			return 0, false
		}
		n, err := strconv.ParseInt(f[0], 10, 64)
		return n, err == nil
	}
	return 0, false
}

// Process is a process and its descendants. It is not safe for concurrent use.
type Process struct {
	pid     int
	members map[int]*member // the process and its descendants, as last seen
	orphans time.Duration   // CPU of descendants that ended where nobody of the family waited for them
	highest time.Duration   // CPU never falls below it
}

// member is one process of the family.
type member struct {
	procStat
	lost bool // its parent is no longer of the family, so that nobody inherits its CPU
}

// Open finds a process. Errors are ErrEnded, or ErrUnsupported where there is no /proc.
func Open(pid int) (*Process, error) {
	s, err := readStat(pid)
	if err != nil {
		return nil, err
	}
	return &Process{pid: pid, members: map[int]*member{pid: {procStat: s}}}, nil
}

// Sample reads the counters of the process and its descendants. ErrEnded says that the process has ended, also when
// another one has got its number since.
func (p *Process) Sample() (Sample, error) {
	root, err := readStat(p.pid)
	if err != nil {
		return Sample{}, err
	}
	if root.started != p.members[p.pid].started {
		return Sample{}, fmt.Errorf("process %d: %w, and another one has its number", p.pid, ErrEnded)
	}
	p.gather(readAllStats())
	var s Sample
	for pid, m := range p.members {
		s.add(pid, m)
	}
	s.CPU = max(s.CPU+p.orphans, p.highest)
	p.highest = s.CPU
	return s, nil
}

// gather brings the members up to date. Who was a descendant once stays one: daemons drop their parent on purpose.
func (p *Process) gather(all map[int]procStat) {
	now := map[int]*member{}
	for pid, m := range p.members {
		if s, ok := all[pid]; ok && s.started == m.started {
			now[pid] = &member{procStat: s}
		} else if m.lost {
			p.orphans += m.cpu
		}
	}
	for more := true; more; {
		more = false
		for pid, s := range all {
			if now[pid] == nil && now[s.parent] != nil {
				now[pid] = &member{procStat: s}
				more = true
			}
		}
	}
	for pid, m := range now {
		m.lost = pid != p.pid && now[m.parent] == nil
	}
	if now[p.pid] == nil { // ended within this very moment; the next sample says so
		now[p.pid] = p.members[p.pid]
	}
	p.members = now
}

// readAllStats reads the stat lines of all processes that can be seen, zombies included: they hold CPU until they are
// waited for.
func readAllStats() map[int]procStat {
	all := map[int]procStat{}
	for _, pid := range numbered("/proc") {
		b, err := os.ReadFile(procPath(pid, "stat"))
		if err != nil {
			continue
		}
		if s, err := statOf(string(b)); err == nil {
			all[pid] = s
		}
	}
	return all
}

// numbered lists the entries of a directory whose names are numbers.
func numbered(dir string) (numbers []int) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1) // what was read before an error is there
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// add counts one process in.
func (s *Sample) add(pid int, m *member) {
	s.CPU += m.cpu
	s.Processes++
	s.Threads += m.threads
	if b, err := os.ReadFile(procPath(pid, "status")); err == nil {
		kib, _ := valueOf(string(b), "VmRSS") // a zombie has none
		s.RSS += kib << 10
	}
	b, err := os.ReadFile(procPath(pid, "io"))
	switch {
	case err == nil && s.DiskRead >= 0:
		read, _ := valueOf(string(b), "read_bytes")
		written, _ := valueOf(string(b), "write_bytes")
		s.DiskRead += read
		s.DiskWritten += written
	case os.IsPermission(err):
		s.DiskRead, s.DiskWritten = -1, -1
	}
}

// selfCPU is the CPU of this process, all threads.
func selfCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machineBusy is the CPU time that all cores have spent on anything but idling, what a hypervisor took away included.
func machineBusy() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return busyOf(string(b))
}

// busyOf adds up the first line of /proc/stat: user nice system idle iowait irq softirq steal; guests are in user already.
func busyOf(text string) (busy time.Duration) {
	line, _, _ := strings.Cut(text, "\n")
	for i, f := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0
		}
		busy += time.Duration(n) * tick
	}
	return busy
}
