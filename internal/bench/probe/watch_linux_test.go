package probe

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWatch compares figures with what the target was told to do.
func TestWatch(t *testing.T) {
	target := start(t, "target")
	w := Watch(target.pid(), target.dir)
	const burned = 500 * time.Millisecond
	target.do("burn 500", "hoard 67108864")
	// The highest memory is sampled: it has to stand for longer than it takes to look.
	<-time.After(2 * sampleInterval)
	target.do("release")
	for range 100 {
		target.do("write", "fsync")
	}
	u := w.Stop()
	if cpu := time.Duration(u.CPUSeconds * float64(time.Second)); cpu < burned-2*tick || cpu > burned+2*time.Second {
		t.Errorf("CPU %v, want at least %v", cpu, burned)
	}
	if u.RSSBytes < 64<<20 || u.RSSBytes > 512<<20 {
		t.Errorf("memory %d, want at least 64 MiB", u.RSSBytes)
	}
	if n := w.Stop().Syncs; n != 100 && n != -1 || n == -1 && countSyncs(target.pid()) != nil {
		t.Errorf("%d syncs, want 100", n)
	}
	if u.Seconds < burned.Seconds()/2 || u.ClientCPUSeconds > 60 || u.OthersCores < 0 {
		t.Errorf("%+v", u)
	}
	if again := w.Stop(); again != u {
		t.Errorf("again %+v, before %+v", again, u)
	}
	target.end()
}

// TestWatchDisk: bytes written are counted if the file system is on a disk, and the system counts.
func TestWatchDisk(t *testing.T) {
	target := start(t, "target")
	w := Watch(target.pid(), target.dir)
	target.do("fill 8388608")
	u := w.Stop()
	low, high := int64(8<<20), int64(16<<20)
	if m, ok := mountOf(target.dir); !ok || m.device == 0 {
		low, high = 0, 1<<20
	}
	if _, err := os.ReadFile("/proc/self/io"); err != nil {
		low, high = -1, 0
	}
	if u.DiskWritten < low || u.DiskWritten > high {
		t.Errorf("%d bytes written, want %d to %d", u.DiskWritten, low, high)
	}
	target.end()
}

// TestWatchFamily: what descendants take is the target's, also after they have ended.
func TestWatchFamily(t *testing.T) {
	target := start(t, "target")
	w := Watch(target.pid(), "")
	target.do("process burn 300")
	u := w.Stop()
	if u.CPUSeconds < 0.28 {
		t.Errorf("CPU %.3f s, want at least 0.28", u.CPUSeconds)
	}
	if u.DeviceFlushes != -1 {
		t.Errorf("%d flushes of an unknown device", u.DeviceFlushes)
	}
	target.end()
}

// TestWatchNobody: a process that is not there, or not known, or that ends.
func TestWatchNobody(t *testing.T) {
	target := start(t, "target")
	w := Watch(target.pid(), target.dir)
	target.do("burn 100")
	<-time.After(2 * sampleInterval) // what was not looked at before the end is lost
	_ = target.cmd.Process.Kill()
	_ = target.cmd.Wait()
	if u := w.Stop(); u.CPUSeconds < 0.08 || u.RSSBytes == 0 {
		t.Errorf("of a process that ended: %+v", u)
	}
	for _, pid := range []int{0, -1, target.pid()} {
		w := Watch(pid, filepath.Join(target.dir, "missing"))
		if u := w.Stop(); u.CPUSeconds != 0 || u.RSSBytes != 0 || u.DeviceFlushes != -1 || w.Stop().Syncs != -1 {
			t.Errorf("of process %d: %+v, %d syncs", pid, u, w.Stop().Syncs)
		}
	}
}

func TestMachineInfo(t *testing.T) {
	m := MachineInfo(os.TempDir())
	if m.CPU == "" || m.Cores < 1 || m.MemoryMB < 64 || m.System == "" || m.Disk == "" {
		t.Errorf("%+v", m)
	}
}

func TestStatLine(t *testing.T) {
	line := "4711 (a) b) (c) S 1 4711 4711 0 -1 4194560 1 2 3 4 150 50 20 30 20 0 17 0 123456 1000 200 18446744073709551615 1 1 0"
	s, err := statOf(line)
	if err != nil || s.state != 'S' || s.parent != 1 || s.cpu != 2500*time.Millisecond || s.threads != 17 || s.started != 123456 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "1 (a) S", "4711 (a) S x 4711 4711 0 -1 4194560 1 2 3 4 150 50 20 30 20 0 17 0 123456"} {
		if s, err := statOf(bad); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func TestMountEntry(t *testing.T) {
	const text = `22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:25 / /data rw shared:1 - btrfs /dev/vdb rw,space_cache
31 22 0:26 / /data/with\040space rw - tmpfs none rw
`
	for path, want := range map[string]string{"/": "ext4", "/database": "ext4", "/data": "btrfs", "/data/x": "btrfs", "/data/with space/x": "tmpfs"} {
		if e, ok := entryOf(text, path); !ok || e.kind != want {
			t.Errorf("%s is on %+v, want %s", path, e, want)
		}
	}
}

func TestMapsAndFlags(t *testing.T) {
	const maps = "7f0000000000-7f0000001000 rw-s 00000000 fe:00 1234    /tmp/a b\n7f0000001000-7f0000002000 rw-p 00000000 00:00 0 \n"
	for address, want := range map[uint64]string{0x7f0000000000: "/tmp/a b", 0x7f0000000fff: "/tmp/a b", 0x7f0000001000: "", 0x1: ""} {
		if got := mappedIn(maps, address); got != want {
			t.Errorf("%x is of %q, want %q", address, got, want)
		}
	}
	for info, want := range map[string]bool{"pos:\t0\nflags:\t02010002\n": true, "pos:\t0\nflags:\t04010002\n": true, "pos:\t0\nflags:\t02000002\n": false, "pos:\t0\nflags:\t02\n": false, "": false} {
		if got := opensThrough(info); got != want {
			t.Errorf("%q writes through: %v", info, got)
		}
	}
}
