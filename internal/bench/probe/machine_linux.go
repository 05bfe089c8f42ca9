package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"godwit/internal/bench/result"
)

// MachineInfo describes this machine and the disk under dir. What cannot be found out is "" or 0.
func MachineInfo(dir string) result.Machine {
	m := result.Machine{CPU: cpuModel(), Cores: runtime.NumCPU(), System: system()}
	if b, err := os.ReadFile("/proc/stat"); err == nil {
		// The cores of the machine, not of the CPU set this process is bound to.
		m.Cores = max(m.Cores, strings.Count(string(b), "\ncpu"))
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		kib, _ := valueOf(string(b), "MemTotal")
		m.MemoryMB = kib >> 10
	}
	if dir != "" {
		m.Disk = diskOf(dir)
	}
	return m
}

// cpuModel is the name of the CPU; boards without one name themselves in the device tree.
func cpuModel() string {
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			k, v, _ := strings.Cut(line, ":")
			if k = strings.TrimSpace(k); k == "model name" || k == "uarch" || k == "cpu model" {
				return strings.TrimSpace(v)
			}
		}
	}
	if b, err := os.ReadFile("/sys/firmware/devicetree/base/model"); err == nil {
		return strings.TrimRight(string(b), "\x00\n")
	}
	return runtime.GOARCH
}

// system is the kernel, its version and the machine's architecture.
func system() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return runtime.GOOS + " " + runtime.GOARCH
	}
	text := func(b []byte) string { return unix.ByteSliceToString(b) }
	return fmt.Sprintf("%s %s %s", text(u.Sysname[:]), text(u.Release[:]), text(u.Machine[:]))
}

// diskOf says which file system dir is on and which device that is on: "ext4 on nvme0n1 (Model X, write back cache)".
func diskOf(dir string) string {
	m, known := mountOf(dir)
	text := m.kind
	if !known {
		text = "unknown file system"
	}
	disks := disksUnder(m.device)
	for i, d := range disks {
		text += []string{" on ", ", "}[min(i, 1)] + filepath.Base(d)
		var traits []string
		if model := firstLine(d + "/device/model"); model != "" {
			traits = append(traits, model)
		}
		if cache := firstLine(d + "/queue/write_cache"); cache != "" {
			traits = append(traits, cache+" cache")
		}
		if len(traits) > 0 {
			text += " (" + strings.Join(traits, ", ") + ")"
		}
	}
	return text
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

// mount is what a directory lies on.
type mount struct {
	kind   string // of file system
	device uint64 // block device; 0 = none, or unknown
}

// mountOf finds the mount of dir. A file system with device numbers of its own making, such as btrfs, is resolved to
// the device it was mounted from, an overlay to that under its upper directory.
func mountOf(dir string) (mount, bool) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return mount{}, false
	}
	return mountIn(string(b), dir, 3)
}

// mountIn looks in the text of a mountinfo; depth bounds overlays on overlays.
func mountIn(mountinfo, dir string, depth int) (mount, bool) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return mount{}, false
	}
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return mount{}, false
	}
	e, ok := entryOf(mountinfo, path)
	if !ok {
		return mount{}, false
	}
	m := mount{kind: e.kind, device: uint64(st.Dev)}
	if unix.Major(m.device) != 0 {
		return m, true
	}
	m.device = 0
	if e.kind == "overlay" && depth > 0 {
		if up, ok := mountIn(mountinfo, e.option("upperdir"), depth-1); ok {
			return mount{kind: "overlay over " + up.kind, device: up.device}, true
		}
		return m, true
	}
	if err := unix.Stat(e.source, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK {
		m.device = uint64(st.Rdev)
	}
	return m, true
}

// mountEntry is a line of mountinfo.
type mountEntry struct {
	point, kind, source, options string
}

func (e *mountEntry) option(name string) string {
	for o := range strings.SplitSeq(e.options, ",") {
		if k, v, ok := strings.Cut(o, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// entryOf finds the mount that path is on: the deepest mount point above it, and of those the last.
func entryOf(mountinfo, path string) (best mountEntry, ok bool) {
	for line := range strings.Lines(mountinfo) {
		// "36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue": fields after the sixth
		// are optional, up to the hyphen.
		left, right, cut := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !cut || len(l) < 6 || len(r) < 3 {
			continue
		}
		e := mountEntry{point: unescape(l[4]), kind: r[0], source: unescape(r[1]), options: unescape(r[2])}
		above := e.point == "/" || path == e.point || strings.HasPrefix(path, e.point+"/")
		if above && len(e.point) >= len(best.point) {
			best, ok = e, true
		}
	}
	return best, ok
}

// unescape resolves the octal escapes that mountinfo has for spaces, tabs, newlines and backslashes.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// disksUnder lists the folders in /sys of the physical disks that a block device stands on: the whole disk of a
// partition, the members of a volume.
func disksUnder(dev uint64) []string {
	if dev == 0 {
		return nil
	}
	folder, err := filepath.EvalSymlinks(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(dev), unix.Minor(dev)))
	if err != nil {
		return nil
	}
	return wholeDisks(folder, 8)
}

// wholeDisks resolves one folder of a block device; depth bounds volumes on volumes.
func wholeDisks(folder string, depth int) (disks []string) {
	if _, err := os.Stat(folder + "/partition"); err == nil {
		folder = filepath.Dir(folder)
	}
	members, _ := filepath.Glob(folder + "/slaves/*")
	if len(members) == 0 || depth == 0 {
		return []string{folder}
	}
	for _, m := range members {
		if f, err := filepath.EvalSymlinks(m); err == nil {
			disks = append(disks, wholeDisks(f, depth-1)...)
		}
	}
	slices.Sort(disks)
	return slices.Compact(disks)
}

// device counts the flushes of the disks under a directory.
type device struct {
	disks []string // folders in /sys; none = unknown
}

func deviceOf(dir string) device {
	if dir == "" {
		return device{}
	}
	m, _ := mountOf(dir)
	return device{disks: disksUnder(m.device)}
}

// flushes is how many flush requests the disks have completed since boot, for anybody; -1 if that is not known. A disk without
// a volatile cache is never sent any.
func (d device) flushes() int64 {
	var n int64
	for _, disk := range d.disks {
		if firstLine(disk+"/queue/write_cache") == "write through" {
			return -1
		}
		// The same numbers as in /proc/diskstats after the name; the 16th is the count of flushes, since Linux 5.5.
		f := strings.Fields(firstLine(disk + "/stat"))
		if len(f) < 16 {
			return -1
		}
		v, err := strconv.ParseInt(f[15], 10, 64)
		if err != nil {
			return -1
		}
		n += v
	}
	if len(d.disks) == 0 {
		return -1
	}
	return n
}

// WriteBack has the system write what programs left in the page cache, and returns when it is on the disks: the next measurement
// does not pay for the one before.
func WriteBack() { unix.Sync() }
