package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/load"
	"godwit/internal/bench/result"
	"godwit/internal/bench/scenario"
)

// benefits are the steps of a scenario of that kind: what message systems are used for.
func benefits(s *scenario.Scenario) (all []step) {
	for _, b := range []struct {
		title   string
		measure func(context.Context, *trial) error
	}{
		{"receiver down for a while", receiverDown},
		{"receiver killed in the middle of a message", receiverKilled},
		{"receiver's address changed", receiverMoved},
		{"n receivers each get all", receiversMany},
		{"sender never waits for receivers", senderWaits},
		{"reader told that its data was removed", readerTold},
	} {
		all = append(all, step{point: s.Points()[0], params: map[string]string{"benefit": b.title}, measure: b.measure})
	}
	return all
}

// manyReceivers is n of the benefit with n receivers.
const manyReceivers = 8

// score keeps the outcome of a benefit.
func (x *trial) score(kept string, took time.Duration, timed, detail string, args ...any) {
	x.out.Benefit = &result.Benefit{Score: kept, Seconds: took.Seconds(), Timed: timed, Detail: fmt.Sprintf(detail, args...)}
}

// complete is the score of a benefit that is about every message arriving.
func complete(a *result.Audit) string {
	switch {
	case a.Lost > 0 || a.Acked == 0:
		return result.ScoreLost
	case a.Failed > 0:
		return result.ScorePartly
	}
	return result.ScoreKept
}

// since is how long after begin the last message came; 0 if none did.
func (x *trial) since(begin time.Time) time.Duration { return max(0, x.lastArrival().Sub(begin)) }

// single is the layout and the session of a benefit with one subscription that is there from the beginning.
func (x *trial) single(ctx context.Context, sub driver.Subscription) (driver.Space, *load.Subscription, error) {
	space, err := x.open(ctx, driver.Layout{Destinations: 1, Partitions: x.s.Clients.Partitions, Subscriptions: []driver.Subscription{sub}})
	if err != nil {
		return nil, nil, err
	}
	if err := x.start(ctx, space, x.step.point.Producers); err != nil {
		return nil, nil, err
	}
	return space, x.session.Subscription(sub.Name), nil
}

// receiver connects one consumer that the caller ends.
func (x *trial) receiver(ctx context.Context, space driver.Space, sub driver.Subscription, net *driver.Network, handle func(driver.Delivery) bool) (driver.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	return space.Consumer(ctx, sub, driver.ConsumerOptions{Net: net, Handle: handle, Lost: func(s string) { x.note("told to a reader: %s", s) }})
}

// part is a phase of a benefit: so long at the scenario's rate.
func (x *trial) part(id uint32, d time.Duration) load.Phase {
	return load.Phase{ID: id, Rate: x.step.point.Rate.PerSecond, Duration: d, Record: true}
}

// receiverDown sends while the receiver is away and times how long it takes until it has what it missed.
func receiverDown(ctx context.Context, x *trial) error {
	sub := driver.Subscription{Name: "away", Durable: true}
	space, audited, err := x.single(ctx, sub)
	if err != nil {
		return err
	}
	c, err := x.receiver(ctx, space, sub, nil, audited.Handler())
	if err != nil {
		return err
	}
	if _, err := x.phase(ctx, "receiver there", x.part(phaseWarmup, time.Second)); err != nil {
		return errors.Join(err, c.Close())
	}
	if err := errors.Join(x.session.Wait(ctx, x.r.Idle), c.Close()); err != nil {
		return err
	}
	missed, err := x.phase(ctx, "receiver away", x.part(phaseMeasured, time.Duration(x.s.Duration)))
	if err != nil {
		return err
	}
	back := time.Now()
	if c, err = x.receiver(ctx, space, sub, nil, audited.Handler()); err != nil {
		return err
	}
	x.keep(c)
	if err := x.settle(ctx); err != nil {
		return err
	}
	x.score(complete(x.out.Audit), x.since(back), "from its return to having all that it missed",
		"%d messages were sent while it was away; %d are lost", missed.Acked, x.out.Audit.Lost)
	return nil
}

// receiverMoved has the receiver come back from another address.
func receiverMoved(ctx context.Context, x *trial) error {
	if !x.target.Local() {
		return driver.Unsupported("a second address of this machine is only known for targets on loopback")
	}
	sub := driver.Subscription{Name: "moves", Durable: true}
	space, audited, err := x.single(ctx, sub)
	if err != nil {
		return err
	}
	c, err := x.receiver(ctx, space, sub, nil, audited.Handler())
	if err != nil {
		return err
	}
	if _, err := x.phase(ctx, "receiver at its first address", x.part(phaseWarmup, time.Second)); err != nil {
		return errors.Join(err, c.Close())
	}
	if err := c.Close(); err != nil {
		return err
	}
	missed, err := x.phase(ctx, "receiver on its way", x.part(phaseBacklog, time.Second))
	if err != nil {
		return err
	}
	moved := x.net.Child()
	moved.Local = secondAddress
	begin := time.Now()
	first := make(chan time.Time, 1)
	handle := audited.Handler()
	moving := make(chan error, 1)
	go func() {
		c, err := x.receiver(ctx, space, sub, moved, func(d driver.Delivery) bool {
			select {
			case first <- time.Now():
			default:
			}
			return handle(d)
		})
		if err == nil {
			x.keep(c)
		}
		moving <- err
	}()
	_, err = x.phase(ctx, "receiver at its second address", x.part(phaseMeasured, time.Duration(x.s.Duration)))
	if err := errors.Join(err, <-moving); err != nil {
		return err
	}
	if err := x.settle(ctx); err != nil {
		return err
	}
	took := time.Since(begin)
	select {
	case t := <-first:
		took = t.Sub(begin)
	default:
	}
	x.score(complete(x.out.Audit), took, "from connecting at the new address to the first message there",
		"%d messages were sent while it had none; %d are lost", missed.Acked, x.out.Audit.Lost)
	return nil
}

// receiversMany has several receivers, each with a subscription of its own.
func receiversMany(ctx context.Context, x *trial) error {
	x.step.point.Subscriptions, x.step.point.Consumers = manyReceivers, 1
	if err := x.fill(ctx); err != nil {
		return err
	}
	sent, err := x.phase(ctx, "sending to all", x.part(phaseMeasured, time.Duration(x.s.Duration)))
	if err != nil {
		return err
	}
	if err := x.settle(ctx); err != nil {
		return err
	}
	_, x.out.EndToEnd = x.session.Latency(phaseMeasured)
	slowest := time.Duration(0)
	if l := x.out.EndToEnd; l != nil {
		slowest = time.Duration(l.Max * float64(time.Microsecond))
	}
	x.score(complete(x.out.Audit), slowest, "the slowest delivery to any of them",
		"%d receivers, %d messages each; %d deliveries are lost", manyReceivers, sent.Acked, x.out.Audit.Lost)
	return nil
}

// senderWaits has a receiver that stops taking messages, and looks at the sender.
func senderWaits(ctx context.Context, x *trial) error {
	sub := driver.Subscription{Name: "stuck", Durable: true}
	space, audited, err := x.single(ctx, sub)
	if err != nil {
		return err
	}
	release := make(chan struct{})
	handle := audited.Handler()
	c, err := x.receiver(ctx, space, sub, nil, func(d driver.Delivery) bool {
		<-release
		return handle(d)
	})
	if err != nil {
		close(release)
		return err
	}
	x.keep(c)
	sent, err := x.phase(ctx, "receiver stuck", x.part(phaseMeasured, time.Duration(x.s.Duration)))
	close(release)
	if err != nil {
		return err
	}
	if err := x.settle(ctx); err != nil {
		return err
	}
	x.out.Producer, _ = x.session.Latency(phaseMeasured)
	longest := time.Duration(0)
	if l := x.out.Producer; l != nil {
		longest = time.Duration(l.Max * float64(time.Microsecond))
	}
	kept := complete(x.out.Audit)
	if kept == result.ScoreKept && (sent.Failed > 0 || longest > waitedFor) {
		kept = result.ScorePartly
	}
	x.score(kept, longest, "the longest that a sender waited for an acknowledgement",
		"%d messages acknowledged, %d refused while the receiver was stuck; %d are lost to it", sent.Acked, sent.Failed, x.out.Audit.Lost)
	return nil
}

// waitedFor is how long a sender may wait for a reason of its own: longer, and it waited for the receiver.
const waitedFor = time.Second
