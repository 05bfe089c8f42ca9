package engine

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"godwit/internal/base"
	"godwit/internal/journal/single"
	"godwit/internal/meta"
	"godwit/internal/partlog"
	"godwit/internal/shard"
	"godwit/internal/storage/segment"
	"godwit/internal/storage/state"
	"godwit/internal/storage/wal"
	"godwit/internal/vfs"
)

// Format is the version of the data directory as a whole. A newer one is refused; an older one is read, and becomes this one before
// anything else is written, so that no release that cannot read what follows takes it for damaged.
//
// Format 2 has transactions, share groups with their queues, and streams groups.
const Format = 2

// Identity is the content of the file `godwit.json` in a data directory.
type Identity struct {
	Format  int   `json:"format"`
	Node    int32 `json:"node"`    // broker ID
	Replica int64 `json:"replica"` // changes when a node comes back without its log
	Shards  int   `json:"shards"`  // data shards
}

const (
	identityFile = "godwit.json"
	lockFile     = "LOCK"
	logDir       = "log"
	stateDir     = "state"
)

// Open recovers what the directory holds, or makes it. Nothing is served and nothing runs before Start.
func Open(o Options) (*Engine, error) {
	o.fill()
	e := &Engine{opts: o, stop: make(chan struct{}), store: segment.NewStore(o.FS, o.FS.PathJoin(o.Dir, logDir))}
	if err := e.open(); err != nil {
		return nil, errors.Join(err, e.release())
	}
	return e, nil
}

func (e *Engine) open() error {
	o := &e.opts
	id, err := e.openDir()
	if err != nil {
		return err
	}
	e.identity = *id
	if e.state, err = state.Open(o.FS, o.FS.PathJoin(o.Dir, stateDir), state.Options{Logger: o.Log}); err != nil {
		return err
	}
	machines, err := e.restore(id.Shards)
	if err != nil {
		return err
	}
	if err := e.replay(machines); err != nil {
		return err
	}
	for _, m := range machines {
		l := newLoop(e, m)
		e.loops = append(e.loops, l)
		m.Logs(func(log *partlog.Log) {
			s := &logState{shard: m.ID}
			s.publish(log)
			e.logs.put(log.ID, s)
		})
		e.losses.restore(m.Losses())
		m.Shares.Configured(e.groupConfigs.put)
	}
	e.view.Store(machines[base.MetaShard].Meta.View)
	e.ckpt.last, e.ckpt.soon = make([]uint64, len(machines)), make(chan struct{}, 1)
	for i, m := range machines {
		if e.ckpt.last[i], _, err = e.state.Applied(m.ID); err != nil {
			return err
		}
	}
	return nil
}

// openDir makes the directory if need be, locks it, and reads or writes its identity.
func (e *Engine) openDir() (*Identity, error) {
	fsys, dir := e.opts.FS, e.opts.Dir
	for _, d := range []string{dir, fsys.PathJoin(dir, logDir), fsys.PathJoin(dir, stateDir)} {
		if err := vfs.MkdirAll(fsys, d, 0o755); err != nil {
			return nil, fmt.Errorf("making the data directory: %w", err)
		}
	}
	lock, err := vfs.LockDir(fsys, fsys.PathJoin(dir, lockFile))
	if err != nil {
		return nil, err
	}
	e.lock = lock
	id, err := ReadIdentity(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		id, err = &Identity{Node: 1, Replica: 1, Shards: e.opts.Shards}, nil
	}
	if err != nil {
		return nil, err
	}
	if id.Format < Format {
		if id.Format > 0 {
			e.opts.Log.Info("the data directory goes over to a newer format, and earlier releases refuse it from now on", "from", id.Format, "to", Format)
		}
		id.Format = Format
		b, _ := json.MarshalIndent(id, "", "  ")
		if err := vfs.WriteFileAtomic(fsys, fsys.PathJoin(dir, identityFile), append(b, '\n')); err != nil {
			return nil, err
		}
	}
	return id, nil
}

// ReadIdentity reads and checks the identity of a data directory.
func ReadIdentity(fsys vfs.FS, dir string) (*Identity, error) {
	path := fsys.PathJoin(dir, identityFile)
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, err
	}
	id := new(Identity)
	if err := json.Unmarshal(b, id); err != nil || id.Shards < 1 || id.Shards > 1<<16 {
		return nil, base.Errorf(base.CodeCorruption, "%s is damaged: restore it from a backup of the directory", path)
	}
	if id.Format > Format {
		return nil, fmt.Errorf("%s: data format %d is newer than %d, which this release reads: start the release that wrote it, or a later one", path, id.Format, Format)
	}
	return id, nil
}

// restore loads the machines as of their last checkpoint.
func (e *Engine) restore(shards int) ([]*shard.Machine, error) {
	machines := make([]*shard.Machine, shards+1)
	for i := range machines {
		id := base.ShardID(i)
		r := shard.NewRestorer(id, e.opts.TopicDefaults)
		if err := e.state.Load(id, r.Restore); err != nil {
			return nil, err
		}
		index, term, err := e.state.Applied(id)
		if err != nil {
			return nil, err
		}
		if machines[i], err = r.Done(index, term); err != nil {
			return nil, err
		}
		s := &shardStore{store: e.state, id: id}
		e.ckpt.stores = append(e.ckpt.stores, s)
		machines[i].SetStored(s)
	}
	return machines, nil
}

// Identity is who the node is.
func (e *Engine) Identity() Identity { return e.identity }

// replay brings the machines up to the end of the log, indexes the data, and begins a new file under a new term.
func (e *Engine) replay(machines []*shard.Machine) error {
	unsealed, err := e.store.OpenAll()
	if err != nil {
		return err
	}
	res, err := wal.Replay(e.store, e.state.ReplayFrom(), func(at wal.Placement, fr *segment.Frame) error {
		return e.replayed(machines, at, fr)
	})
	if err != nil {
		return err
	}
	for _, m := range machines {
		res.Term = max(res.Term, m.Term)
	}
	if err := e.reconcile(machines); err != nil {
		return err
	}
	for i, f := range unsealed {
		end := res.End.Offset()
		if i+1 < len(unsealed) {
			end = unsealed[i+1].PrevEnd
		}
		if err := e.store.Seal(f, end); err != nil {
			return err
		}
	}
	e.writer, err = wal.Begin(e.store, wal.Options{FileSize: e.opts.FileSize, ReserveFree: e.opts.ReserveFree,
		Durability: e.opts.Durability, Clock: e.opts.Clock, Rand: e.opts.Rand}, res.Term+1, res.Last+1, res.End)
	if err != nil {
		return err
	}
	e.single = single.New(e.writer, e.lead, e.opts.Log)
	e.journal = e.single
	e.compactor = e.newCompactor()
	if res.Frames > 0 {
		e.opts.Log.Info("recovered the log", "entries", res.Frames, "bytes", res.Bytes, "end", res.End.String(), "cut", res.Cut)
	}
	return nil
}

// replayed takes one entry of the log.
func (e *Engine) replayed(machines []*shard.Machine, at wal.Placement, fr *segment.Frame) error {
	if int(fr.Shard) >= len(machines) {
		return base.Errorf(base.CodeCorruption, "entry of shard %d; the directory has %d", fr.Shard, len(machines))
	}
	if !at.File.Sealed() {
		e.store.Add(at.File, at.Pos, fr.Extents)
	}
	m := machines[fr.Shard]
	if fr.Index <= m.Index {
		return nil
	}
	if fr.Index != m.Index+1 {
		return base.Errorf(base.CodeCorruption, "entry %d of shard %d follows entry %d: a log file is missing", fr.Index, fr.Shard, m.Index)
	}
	c, err := shard.Decode(fr.Command)
	if err != nil {
		return err
	}
	_, err = m.Apply(fr.Index, fr.Term, fr.Time, c)
	return err
}

// reconcile drops from the index what no log refers to, and checks that what the logs refer to is there.
func (e *Engine) reconcile(machines []*shard.Machine) error {
	live := map[base.LogID]*partlog.Log{}
	for _, m := range machines {
		m.Logs(func(l *partlog.Log) { live[l.ID] = l })
	}
	for _, id := range e.store.Logs() {
		if l := live[id]; l != nil {
			e.store.Trim(id, l.Start())
		} else {
			e.store.Drop(id)
		}
	}
	for id, l := range live {
		if missing, ok := e.store.Covers(id, l.Start(), l.End()); !ok {
			return base.Errorf(base.CodeCorruption, "log %d holds offsets %d to %d, and there is no data at %d: a data file is missing; restore it", id, l.Start(), l.End()-1, missing)
		}
	}
	return nil
}

// bootstrap writes the first entry of a new cluster.
func (e *Engine) bootstrap() error {
	_, err := e.Decide(context.Background(), base.MetaShard, func(m *shard.Machine, _ int64) (*shard.Command, error) {
		if m.Guess.View.ClusterID != "" {
			return nil, nil
		}
		shards := len(e.loops) - 1
		slots := make([]base.ShardID, groupSlots)
		for i := range slots {
			slots[i] = base.ShardID(1 + i%shards)
		}
		id := e.NewID()
		c := &meta.Command{Bootstrap: &meta.Bootstrap{ClusterID: base64.RawURLEncoding.EncodeToString(id[:]), DataShards: uint32(shards), GroupSlots: slots}}
		return e.metaCommand(m, c), nil
	})
	return err
}

// groupSlots is fixed for ever: a group's slot is derived from it.
const groupSlots = 64

// metaCommand enters a decided metadata command into the guess and wraps it for the journal.
func (e *Engine) metaCommand(m *shard.Machine, c *meta.Command) *shard.Command {
	m.Guess.Apply(c)
	return &shard.Command{Meta: c.Encode()}
}

// DecideMeta is Decide for shard 0.
func (e *Engine) DecideMeta(ctx context.Context, fn func(guess *meta.State, now int64) (*meta.Command, error)) (*shard.Applied, error) {
	return e.Decide(ctx, base.MetaShard, func(m *shard.Machine, now int64) (*shard.Command, error) {
		c, err := fn(m.Guess, now)
		if err != nil || c == nil {
			return nil, err
		}
		return e.metaCommand(m, c), nil
	})
}

// NewID makes a random identifier (RFC 9562 version 4).
func (e *Engine) NewID() (id base.StreamID) {
	e.randMu.Lock()
	defer e.randMu.Unlock()
	for i := range id {
		id[i] = byte(e.opts.Rand.UintN(256))
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// NewUUID is NewID in the usual text form, 36 characters.
func (e *Engine) NewUUID() string {
	id := e.NewID()
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
