package run

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/load"
	"godwit/internal/bench/result"
)

// secondAddress is where a receiver on this machine moves to.
var secondAddress = netip.AddrFrom4([4]byte{127, 0, 0, 2})

// receiverKilled has a receiver die with a message in its hands, and another one take over: with each message
// acknowledged by itself, where that can be had.
func receiverKilled(ctx context.Context, x *trial) error {
	err := x.kill(ctx, true, "acknowledges each message")
	if !errors.Is(err, driver.ErrUnsupported) {
		return err
	}
	y := x.r.trial(x.target, x.s, x.step)
	err = y.kill(ctx, false, "acknowledges positions, not messages")
	y.close()
	y.conclude()
	x.out = y.out
	return err
}

// kill is receiverKilled with one way to acknowledge, each in words.
func (x *trial) kill(ctx context.Context, ackEach bool, each string) error {
	sub := driver.Subscription{Name: "work", Durable: true, Shared: true, AckEach: ackEach}
	space, audited, err := x.single(ctx, sub)
	if err != nil {
		return err
	}
	v := &victim{net: x.net.Child(), handle: audited.Handler(), dead: make(chan struct{})}
	first, err := x.receiver(ctx, space, sub, v.net, v.take)
	if err != nil {
		return err
	}
	sending := make(chan error, 1)
	var sent load.Sent
	go func() {
		var err error
		sent, err = x.phase(ctx, "receiver killed", x.part(phaseMeasured, time.Duration(x.s.Duration)))
		sending <- err
	}()
	select {
	case <-v.dead:
	case err := <-sending:
		return errors.Join(err, errors.New("the receiver to be killed got no message"), first.Close())
	case <-ctx.Done():
		return ctx.Err()
	}
	killed := time.Now()
	again := make(chan time.Time, 1)
	handle := audited.Handler()
	second, err := x.receiver(ctx, space, sub, nil, func(d driver.Delivery) bool {
		if v.held(d) {
			again <- time.Now() // once: the channel has room for the first, and held is true once
		}
		return handle(d)
	})
	if err != nil {
		return errors.Join(err, <-sending)
	}
	x.keep(second)
	if err := <-sending; err != nil {
		return err
	}
	if err := x.settleSlowly(ctx, again, killed); err != nil {
		return err
	}
	took, kept := time.Since(killed), result.ScoreLost
	select {
	case t := <-again:
		took = t.Sub(killed)
		kept = complete(x.out.Audit)
	default:
	}
	x.score(kept, took, "from its death to the message reaching another receiver",
		"the protocol %s; %d messages sent, %d lost, %d delivered twice", each, sent.Acked, x.out.Audit.Lost, x.out.Audit.Duplicates)
	return nil
}

// redelivery is how long a target may take to notice that a receiver is dead: sessions of 45 s are usual.
const redelivery = 90 * time.Second

// settleSlowly waits for the last message where a target may take its time to notice a death.
func (x *trial) settleSlowly(ctx context.Context, again chan time.Time, killed time.Time) error {
	x.do("waiting for the dead receiver's message to be delivered again")
	t := time.NewTimer(time.Until(killed.Add(redelivery)))
	defer t.Stop()
	select {
	case at := <-again:
		again <- at
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return x.settle(ctx)
}

// afterMessages is how many messages the victim handles before it dies.
const afterMessages = 100

// victim is a receiver that dies with a message in its hands.
type victim struct {
	net    *driver.Network
	handle func(driver.Delivery) bool
	dead   chan struct{} // closed at its death

	taken int         // messages handled
	gone  atomic.Bool // dead

	mu   sync.Mutex
	last load.Header // guarded by mu; what it held
	seen bool        // guarded by mu; it was delivered again
}

// take handles messages until the one that it dies with.
func (v *victim) take(d driver.Delivery) bool {
	if v.gone.Load() {
		return false
	}
	if v.taken++; v.taken <= afterMessages {
		return v.handle(d)
	}
	h, err := load.ParseHeader(d.Payload)
	if err != nil {
		return false
	}
	v.mu.Lock()
	v.last = h
	v.mu.Unlock()
	v.gone.Store(true)
	v.net.Cut()
	close(v.dead)
	return false
}

// held says, once, that a message is the one the victim held.
func (v *victim) held(d driver.Delivery) bool {
	h, err := load.ParseHeader(d.Payload)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil || v.seen || h != v.last {
		return false
	}
	v.seen = true
	return true
}

// readerTold removes what a reader has not read, and looks what it is told when it comes back.
func readerTold(ctx context.Context, x *trial) error {
	sub := driver.Subscription{Name: "slow", Durable: true}
	space, audited, err := x.single(ctx, sub)
	if err != nil {
		return err
	}
	c, err := x.receiver(ctx, space, sub, nil, audited.Handler())
	if err != nil {
		return err
	}
	if _, err := x.phase(ctx, "reader there", x.part(phaseWarmup, time.Second)); err != nil {
		return errors.Join(err, c.Close())
	}
	if err := errors.Join(x.session.Wait(ctx, x.r.Idle), c.Close()); err != nil {
		return err
	}
	removed, err := x.phase(ctx, "reader away", x.part(phaseBacklog, time.Second))
	if err != nil {
		return err
	}
	if err := space.Discard(ctx, 0); err != nil {
		return err
	}
	if _, err := x.phase(ctx, "sending what stays", x.part(phaseMeasured, time.Second)); err != nil {
		return err
	}
	return x.returns(ctx, space, sub, audited, removed.Acked)
}

// returns has the reader of removed data come back.
func (x *trial) returns(ctx context.Context, space driver.Space, sub driver.Subscription, audited *load.Subscription, removed int64) error {
	told := make(chan string, 100)
	back := time.Now()
	setup, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	c, err := space.Consumer(setup, sub, driver.ConsumerOptions{Handle: audited.Handler(), Lost: func(said string) {
		select {
		case told <- said:
		default:
		}
	}})
	if err != nil {
		return err
	}
	x.keep(c)
	if err := x.settle(ctx); err != nil {
		return err
	}
	missing := x.out.Audit.Lost
	x.out.Audit = nil // what is missing was removed on purpose
	if missing == 0 && removed > 0 {
		return errors.New("the target was asked to remove messages and delivered them all: what a reader is told cannot be seen")
	}
	took := x.since(back)
	lost := max(0, missing-removed) // of what stayed
	select {
	case said := <-told:
		if lost > 0 {
			x.score(result.ScoreLost, took, "from its return until it had what arrived", "%d messages were removed; it was told, and %d that stayed are lost", removed, lost)
		} else {
			x.score(result.ScoreKept, took, "from its return until it had been told and had what is left", "%d messages were removed; it was told", removed)
		}
		x.out.Benefit.Said = said
	default:
		x.score(result.ScoreLost, took, "from its return until it had what is left", "%d messages were removed; nothing was said", removed)
	}
	return nil
}
