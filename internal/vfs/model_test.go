package vfs

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// twin is Crashing without cleverness: every file is two copies, and what is durable of the names is found by going over
// all changes again and again.
type twin struct {
	live, durable map[string]*twinFile // by path
	changes       []twinChange
}

type twinFile struct{ live, synced, least []byte } // least: what a lost truncation cannot bring back

type twinChange struct {
	set     map[string]*twinFile // nil value: removed
	durable bool
}

func (w *twin) change(set map[string]*twinFile) {
	for name, f := range set {
		if f == nil {
			delete(w.live, name)
		} else {
			w.live[name] = f
		}
	}
	w.changes = append(w.changes, twinChange{set: set})
}

func (w *twin) syncDir(dir string) {
	for i := range w.changes {
		for name := range w.changes[i].set {
			w.changes[i].durable = w.changes[i].durable || name[:2] == dir
		}
	}
	for again := true; again; {
		again = false
		for j, later := range w.changes {
			for i := range w.changes[:j] {
				for name := range w.changes[i].set {
					if _, same := later.set[name]; same && later.durable && !w.changes[i].durable {
						w.changes[i].durable, again = true, true
					}
				}
			}
		}
	}
	var left []twinChange
	for _, c := range w.changes {
		if !c.durable {
			left = append(left, c)
			continue
		}
		for name, f := range c.set {
			if f == nil {
				delete(w.durable, name)
			} else {
				w.durable[name] = f
			}
		}
	}
	w.changes = left
}

func resize(b []byte, n int) []byte {
	if n <= len(b) {
		return slices.Clone(b[:n])
	}
	return append(slices.Clone(b), make([]byte, n-len(b))...)
}

func (f *twinFile) write(off int, p []byte) {
	f.live = resize(f.live, max(len(f.live), off+len(p)))
	copy(f.live[off:], p)
}

// possible says whether a crash may leave these bytes of a file: each is one that was synced, one that was
// written, or a zero that nothing was put over yet.
func (f *twinFile) possible(got []byte) error {
	if len(got) > max(len(f.live), len(f.synced)) {
		return fmt.Errorf("%d bytes survived; %d were synced and %d written", len(got), len(f.synced), len(f.live))
	}
	if len(got) < min(len(f.least), len(f.synced)) {
		return fmt.Errorf("%d bytes survived; the file had never less than %d", len(got), min(len(f.least), len(f.synced)))
	}
	for i, b := range got {
		old, fresh := i < len(f.synced) && f.synced[i] == b, i < len(f.live) && f.live[i] == b
		zero := b == 0 && i >= min(len(f.least), len(f.synced))
		if !old && !fresh && !zero {
			return fmt.Errorf("byte %d is %d: neither synced nor written", i, b)
		}
	}
	return nil
}

type machine struct {
	disk  *Crashing
	fsys  FS
	twin  *twin
	fill  byte
	names []string
}

func newMachine(t *rapid.T) *machine {
	m := &machine{names: []string{"/p/a", "/p/b", "/q/a"}}
	disk := NewCrashing()
	check2(t, MkdirAll(disk, "/p", 0o755))
	check2(t, MkdirAll(disk, "/q", 0o755))
	m.adopt(t, disk)
	return m
}

// adopt starts from what a disk holds, as after a reboot.
func (m *machine) adopt(t *rapid.T, disk *Crashing) {
	m.disk, m.fsys = disk, NewFaults(disk, 1)
	m.twin = &twin{live: map[string]*twinFile{}, durable: map[string]*twinFile{}}
	for _, name := range m.names {
		if b, err := ReadFile(disk, name, 1<<30); err == nil {
			f := &twinFile{live: b, synced: b, least: b}
			m.twin.live[name], m.twin.durable[name] = f, f
		}
	}
}

func check2(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// on runs fn on an open file that exists in the twin.
func (m *machine) on(t *rapid.T, fn func(f File, w *twinFile)) {
	name := rapid.SampledFrom(m.names).Draw(t, "name")
	w := m.twin.live[name]
	f, err := m.fsys.Open(name)
	if (err == nil) != (w != nil) {
		t.Fatalf("%s: %v; the twin has it: %v", name, err, w != nil)
	}
	if w == nil {
		return
	}
	check2(t, f.Close())
	f, err = m.fsys.OpenReadWrite(name, CategoryData)
	check2(t, err)
	fn(f, w)
	check2(t, f.Close())
}

func (m *machine) actions() map[string]func(*rapid.T) {
	name := rapid.SampledFrom(m.names)
	return map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			for _, n := range m.names {
				got, err := ReadFile(m.fsys, n, 1<<30)
				if w := m.twin.live[n]; (w != nil) != (err == nil) || w != nil && !bytes.Equal(got, w.live) {
					t.Fatalf("%s: %d bytes, %v, not what was written", n, len(got), err)
				}
			}
		},
		"create": func(t *rapid.T) {
			n := name.Draw(t, "name")
			f, err := m.fsys.Create(n, CategoryData)
			check2(t, err)
			check2(t, f.Close())
			if m.twin.live[n] != nil {
				m.twin.change(map[string]*twinFile{n: nil})
			}
			m.twin.change(map[string]*twinFile{n: {}})
		},
		"write": func(t *rapid.T) {
			m.on(t, func(f File, w *twinFile) {
				off := rapid.IntRange(0, 3*blockSize).Draw(t, "offset")
				m.fill = m.fill%250 + 1
				p := bytes.Repeat([]byte{m.fill}, rapid.IntRange(0, 2*blockSize).Draw(t, "length"))
				cut := rapid.IntRange(0, len(p)).Draw(t, "cut")
				check2(t, Writev(f, int64(off), [][]byte{p[:cut], p[cut:]}))
				if len(p) > 0 {
					w.write(off, p)
				}
			})
		},
		"truncate": func(t *rapid.T) {
			m.on(t, func(f File, w *twinFile) {
				n := rapid.IntRange(0, 5*blockSize).Draw(t, "size")
				_, err := Truncate(f, int64(n))
				check2(t, err)
				w.live = resize(w.live, n)
				w.least = w.least[:min(n, len(w.least))]
			})
		},
		"sync": func(t *rapid.T) {
			m.on(t, func(f File, w *twinFile) {
				check2(t, f.Sync())
				w.synced, w.least = slices.Clone(w.live), slices.Clone(w.live)
			})
		},
		"rename": func(t *rapid.T) {
			from, to := name.Draw(t, "from"), name.Draw(t, "to")
			err := m.fsys.Rename(from, to)
			w := m.twin.live[from]
			if (err == nil) != (w != nil) {
				t.Fatalf("%v; the twin has it: %v", err, w != nil)
			}
			if w != nil && from != to {
				m.twin.change(map[string]*twinFile{from: nil, to: w})
			}
		},
		"remove": func(t *rapid.T) {
			n := name.Draw(t, "name")
			err := m.fsys.Remove(n)
			if (err == nil) != (m.twin.live[n] != nil) {
				t.Fatal(err)
			}
			if err == nil {
				m.twin.change(map[string]*twinFile{n: nil})
			}
		},
		"sync directory": func(t *rapid.T) {
			dir := rapid.SampledFrom([]string{"/p", "/q"}).Draw(t, "directory")
			check2(t, SyncDir(m.fsys, dir))
			m.twin.syncDir(dir)
		},
		"crash": m.crash,
	}
}

func (m *machine) crash(t *rapid.T) {
	read := func(disk *Crashing) map[string]string {
		out := map[string]string{}
		for _, n := range m.names {
			if b, err := ReadFile(disk, n, 1<<30); err == nil {
				out[n] = string(b)
			}
		}
		return out
	}
	want := func(files map[string]*twinFile, bytes func(*twinFile) []byte) map[string]string {
		out := map[string]string{}
		for n, f := range files {
			out[n] = string(bytes(f))
		}
		return out
	}
	if got := read(m.disk.CrashClone(nil, 0)); !maps.Equal(got, want(m.twin.durable, func(f *twinFile) []byte { return f.synced })) {
		t.Fatalf("with 0 %%: not what was synced")
	}
	if got := read(m.disk.CrashClone(nil, 100)); !maps.Equal(got, want(m.twin.live, func(f *twinFile) []byte { return f.live })) {
		t.Fatalf("with 100 %%: not what was written")
	}
	seed, percent := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 99).Draw(t, "percent")
	clone := m.disk.CrashClone(rand.New(rand.NewPCG(seed, 0)), percent)
	got := read(clone)
	if again := read(m.disk.CrashClone(rand.New(rand.NewPCG(seed, 0)), percent)); !maps.Equal(got, again) {
		t.Fatalf("two clones of one seed differ")
	}
	for n, b := range got {
		var errs []error
		for _, f := range m.twin.candidates(n) {
			errs = append(errs, f.possible([]byte(b)))
		}
		if !slices.Contains(errs, nil) {
			t.Fatalf("%s cannot have survived like that: %v", n, errs)
		}
	}
	if used := clone.Used(); used > m.blocks(got) {
		t.Fatalf("%d bytes in use, at most %d in the files", used, m.blocks(got))
	}
	m.adopt(t, clone)
}

func (m *machine) blocks(files map[string]string) (n int64) {
	for _, b := range files {
		n += blocksOf(int64(len(b))) * blockSize
	}
	return n
}

// candidates are the files that a name may mean after a crash.
func (w *twin) candidates(name string) (files []*twinFile) {
	if f := w.durable[name]; f != nil {
		files = append(files, f)
	}
	for _, c := range w.changes {
		if f := c.set[name]; f != nil {
			files = append(files, f)
		}
	}
	return files
}

func TestCrashingAgainstTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(m.actions())
	})
}
