//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond is USER_HZ, in which /proc reports CPU time: 100 on every Linux architecture Go runs on.
const ticksPerSecond = 100

// cpuSeconds is the user and system time a process has used, in all its threads.
func cpuSeconds(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStatCPU(b)
}

// parseStatCPU reads fields 14 and 15; the command in field 2 may hold spaces and parentheses.
func parseStatCPU(b []byte) (float64, error) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return 0, fmt.Errorf("no command in %q", b)
	}
	fields := strings.Fields(string(b[end+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("%d fields after the command, want 13", len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond, nil
}

// colonValue finds "NAME: N" in a /proc file and returns N; -1 if it is not there.
func colonValue(path, name string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return -1
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		k, v, ok := strings.Cut(sc.Text(), ":")
		if !ok || k != name {
			continue
		}
		fields := strings.Fields(v)
		if len(fields) == 0 {
			return -1
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	return -1
}

// rssMiB and pssMiB are a process's resident and proportional set.
func rssMiB(pid int) float64 {
	return float64(colonValue(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")) / 1024
}

func pssMiB(pid int) float64 {
	return float64(colonValue(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss")) / 1024
}

// writtenBytes is what a process caused to be written to storage, sooner or later.
func writtenBytes(pid int) int64 {
	return colonValue(fmt.Sprintf("/proc/%d/io", pid), "write_bytes")
}

// dirtyMiB is the page cache that has not reached the disk.
func dirtyMiB() float64 {
	return float64(colonValue("/proc/meminfo", "Dirty")+colonValue("/proc/meminfo", "Writeback")) / 1024
}

// machineBusy is the CPU time all cores have spent on anything but idling, in seconds.
func machineBusy() float64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	var ticks int64
	for i, f := range fields {
		// user nice system idle iowait irq softirq steal; guest time is already in user.
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return float64(ticks) / ticksPerSecond
}

// disk is the block device under a directory, as /sys counts it.
type disk struct {
	name, stat string
}

// diskOf finds the device; its name is empty where the file system has none.
func diskOf(dir string) disk {
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return disk{}
	}
	major := (st.Dev>>8)&0xfff | (st.Dev>>32)&^uint64(0xfff)
	minor := st.Dev&0xff | (st.Dev>>12)&^uint64(0xff)
	sys := fmt.Sprintf("/sys/dev/block/%d:%d", major, minor)
	target, err := filepath.EvalSymlinks(sys)
	if err != nil {
		return disk{}
	}
	return disk{name: filepath.Base(target), stat: sys + "/stat"}
}

// counters returns the bytes written to the device and the time for which it was busy.
func (d disk) counters() (written int64, busy time.Duration) {
	b, err := os.ReadFile(d.stat)
	if err != nil {
		return 0, 0
	}
	f := strings.Fields(string(b))
	if len(f) < 10 {
		return 0, 0
	}
	sectors, _ := strconv.ParseInt(f[6], 10, 64)
	ms, _ := strconv.ParseInt(f[9], 10, 64)
	return sectors * 512, time.Duration(ms) * time.Millisecond
}

// usage is one reading of everything a load is charged with.
type usage struct {
	at       time.Time
	cpu      float64
	written  int64
	machine  float64
	device   int64
	devBusy  time.Duration
	selfTime float64
}

func readUsage(pid int, d disk) usage {
	u := usage{at: time.Now(), machine: machineBusy(), written: writtenBytes(pid), selfTime: selfCPU()}
	u.cpu, _ = cpuSeconds(pid)
	u.device, u.devBusy = d.counters()
	return u
}

// selfCPU is the CPU time of this process, in seconds.
func selfCPU() float64 {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano()).Seconds()
}
