package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// crew is the members of one group, which come, leave, are paused and are killed.
type crew struct {
	w       *world
	broker  *broker
	kinds   []string                              // what members there can be
	command func(kind string) ([]string, error)   // that starts a member
	line    func(member, kind, text string)       // takes what it prints
	told    func(member string, what disturbance) // takes what happens to it, just before it does
	least   int                                   // members that are not paused
	most    int                                   // members
	calm    time.Duration                         // between two events, at most; the least is a fifth

	members []*process
	kindOf  map[string]string // by member
	made    int
	counts  map[string]int // of events

	file  *os.File
	log   *bufio.Writer // of all lines, under logMu
	logMu sync.Mutex
}

// crewCalm is for groups that find new members within seconds.
const crewCalm = 1700 * time.Millisecond

// disturbance is what is done to a member.
type disturbance int

const (
	told    disturbance = iota // to leave
	killed                     // by SIGKILL
	paused                     // by SIGSTOP
	resumed                    // by SIGCONT
)

func (c *crew) open() (err error) {
	c.kindOf, c.counts = map[string]string{}, map[string]int{}
	if c.file, err = os.Create(filepath.Join(c.w.dir, "history.txt")); err == nil {
		c.log = bufio.NewWriter(c.file)
	}
	return err
}

func (c *crew) close() {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	_ = c.log.Flush()
	_ = c.file.Close()
}

func (c *crew) note(member, text string) {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	fmt.Fprintf(c.log, "%s %s %s\n", time.Now().Format("04:05.000"), member, text)
}

func (c *crew) count(event, who string) {
	c.counts[event]++
	c.note(who, event)
}

// join starts a member.
func (c *crew) join(kind string) error {
	command, err := c.command(kind)
	if err != nil {
		return err
	}
	c.made++
	name := fmt.Sprintf("%02d-%s", c.made, kind)
	c.note(name, "joins")
	p, err := c.w.start(name, command, func(line string) {
		c.note(name, line)
		c.line(name, kind, line)
	})
	if err != nil {
		return err
	}
	c.members = append(c.members, p)
	c.kindOf[name] = kind
	return nil
}

func (c *crew) remove(p *process) {
	c.members = slices.DeleteFunc(c.members, func(q *process) bool { return q == p })
}

// leave tells a member to go; it may take its time, but has to end in order.
func (c *crew) leave(p *process) error {
	c.remove(p)
	c.told(p.name, told)
	p.closeInput()
	return p.wait(20 * time.Second)
}

func (c *crew) kill(p *process) {
	c.remove(p)
	c.told(p.name, killed)
	p.kill()
}

func (c *crew) pause(p *process, length time.Duration) {
	c.told(p.name, paused)
	p.signal(syscall.SIGSTOP)
	time.AfterFunc(length, func() { c.resume(p) })
}

func (c *crew) resume(p *process) {
	if p.isStopped() {
		c.note(p.name, "continues")
		c.told(p.name, resumed)
		p.signal(syscall.SIGCONT)
	}
}

// alive fails if a member has ended that should not.
func (c *crew) alive() error {
	for _, p := range c.members {
		if !p.running() {
			return fmt.Errorf("%s ended by itself: %w: %s", p.name, p.err, tail(p.log, 1000))
		}
	}
	return nil
}

// disturb draws one event after the other until ctx ends, and kills the broker at even distances. other, if not nil, is asked
// before each event, and may say that it has done something instead.
func (c *crew) disturb(ctx context.Context, length time.Duration, kills int, other func(sinceStart time.Duration) (bool, error)) error {
	start := time.Now()
	for done := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.w.between(c.calm/5, c.calm)):
		}
		if err := c.alive(); err != nil {
			return err
		}
		since := time.Since(start)
		if since > length*time.Duration(done+1)/time.Duration(kills+1) {
			done++
			c.count("broker killed", c.broker.name)
			c.told(c.broker.name, killed)
			if err := c.broker.restart(c.w.between(0, time.Second)); err != nil {
				return err
			}
			c.note(c.broker.name, "serves again")
			continue
		}
		if other != nil {
			if did, err := other(since); did || err != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		if err := c.event(c.kinds); err != nil {
			return err
		}
	}
}

// event lets one thing happen to one member. Who joins is one of wanted.
func (c *crew) event(wanted []string) error {
	var free []*process
	for _, p := range c.members {
		if !p.isStopped() {
			free = append(free, p)
		}
	}
	what := c.w.rand.IntN(10)
	if len(free) <= c.least || (what < 4 && len(c.members) < c.most) {
		kind := c.lacking(wanted)
		c.count("joined", kind)
		return c.join(kind)
	}
	p := free[c.w.rand.IntN(len(free))]
	switch {
	case what < 6:
		c.count("left", p.name)
		return c.leave(p)
	case what < 8:
		p = c.members[c.w.rand.IntN(len(c.members))] // a paused one too
		c.count("killed", p.name)
		c.kill(p)
	default:
		c.count("paused", p.name)
		c.pause(p, c.w.between(time.Second, 11*time.Second)) // half of the pauses outlast a session of 6 s
	}
	return nil
}

// lacking draws a kind, one that has no member if there is such.
func (c *crew) lacking(kinds []string) string {
	absent := slices.Clone(kinds)
	for _, p := range c.members {
		absent = slices.DeleteFunc(absent, func(kind string) bool { return kind == c.kindOf[p.name] })
	}
	if len(absent) == 0 {
		absent = kinds
	}
	return absent[c.w.rand.IntN(len(absent))]
}

// resumeAll ends all pauses.
func (c *crew) resumeAll() {
	for _, p := range c.members {
		c.resume(p)
	}
}

// leaveAll has all members leave.
func (c *crew) leaveAll() (err error) {
	for _, p := range slices.Clone(c.members) {
		err = errors.Join(err, c.leave(p))
	}
	return err
}
