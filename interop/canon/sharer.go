package canon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// Sharer is a Client that has share groups (KIP-932).
type Sharer interface {
	// Share joins a share group and processes records until ctx ends: each poll brings at most ShareBatch records, each of which is
	// answered as fate draws, before the next poll. It tells log what was delivered, what it is about to answer, and
	// what the broker said to that.
	Share(ctx context.Context, group, topic string, fate *Fate, log MemberLog) error
}

// How members of share groups behave, whatever their library.
const (
	ShareBatch = 20                    // records of a poll
	ShareWork  = 20 * time.Millisecond // for a batch
	ShareHold  = 5 * time.Second       // for a batch that outlasts its lock
)

// Answers to a delivered record, as the protocol has them.
const (
	Accept  = 1
	Release = 2
	Reject  = 3
	Renew   = 4
)

// Fate draws what a member does with what it gets, from its seed.
type Fate struct{ r *rand.Rand }

// Answer draws what becomes of a record: Accept, Release, Reject, or Renew and Accept after that.
func (f *Fate) Answer() int {
	switch n := f.r.IntN(100); {
	case n < 75:
		return Accept
	case n < 90:
		return Release
	case n < 95:
		return Reject
	}
	return Renew
}

// Work draws how long a batch takes. Few of them outlast their locks.
func (f *Fate) Work() time.Duration {
	if f.r.IntN(100) == 0 {
		return ShareHold
	}
	return ShareWork
}

// Polling says that a poll begins. What it brings was acquired after the poll before it began.
func (l MemberLog) Polling() { l.print("p %d", time.Now().UnixMicro()) }

// Delivered says that a record came, for the deliveries-th time.
func (l MemberLog) Delivered(partition int32, offset int64, deliveries int32, value []byte) {
	l.print("d %d %d %d %d %s", time.Now().UnixMicro(), partition, offset, deliveries, value)
}

// Answering says what is about to be answered.
func (l MemberLog) Answering(partition int32, offset int64, answer int) {
	l.print("y %d %d %d %d", time.Now().UnixMicro(), partition, offset, answer)
}

// Answered says that the broker took the answer.
func (l MemberLog) Answered(partition int32, offset int64, answer int) {
	l.print("k %d %d %d %d", time.Now().UnixMicro(), partition, offset, answer)
}

// Unsure says that the broker did not take an answer, or that nobody knows.
func (l MemberLog) Unsure(partition int32, offset int64, answer int, err error) {
	l.print("n %d %d %d %d %s", time.Now().UnixMicro(), partition, offset, answer, strings.ReplaceAll(err.Error(), "\n", " "))
}

// share runs a sharer until standard input ends.
func share(group, topic, seed string, c Client) int {
	s, ok := c.(Sharer)
	n, err := strconv.ParseUint(seed, 10, 64)
	if !ok || err != nil {
		fmt.Fprintln(os.Stderr, "this client has no share groups, or SEED is no number")
		return 2
	}
	return untilInputEnds(func(ctx context.Context, log MemberLog) error {
		return s.Share(ctx, group, topic, &Fate{rand.New(rand.NewPCG(n, 0))}, log)
	})
}
