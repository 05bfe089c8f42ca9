package canon

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// MemberLog is what a member of a group tells, one line each, written at once: a process that is killed has told all it did.
type MemberLog struct{ lines *lines }

type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l MemberLog) print(format string, args ...any) {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	if _, err := fmt.Fprintf(l.lines.w, format+"\n", args...); err != nil {
		os.Exit(1) // nobody listens any more
	}
}

// Assigned says that from now on these partitions are the member's, and no others.
func (l MemberLog) Assigned(partitions []int32) {
	l.print("a %s", strings.Trim(fmt.Sprint(partitions), "[]"))
}

// Processed says that a record was processed. value has no blanks.
func (l MemberLog) Processed(partition int32, offset int64, value []byte) {
	l.print("r %d %d %s", partition, offset, value)
}

// Committed says that the broker acknowledged a commit of offset.
func (l MemberLog) Committed(partition int32, offset int64) {
	l.print("c %d %d", partition, offset)
}

// Refused says that a commit failed.
func (l MemberLog) Refused(err error) {
	l.print("x %s", strings.ReplaceAll(err.Error(), "\n", " "))
}

// Ended says that a transaction that copied n records ended, by a commit or by an abort that was meant.
func (l MemberLog) Ended(committed bool, n int) {
	if committed {
		l.print("t %d", n)
	} else {
		l.print("u %d", n)
	}
}

// Copier is a Client that has transactions.
type Copier interface {
	// Copy joins a consumer group and copies the records of a topic to the same partitions of another, in transactions that
	// hold at most MemberBatch records and their offsets, until ctx ends. Every AbortEvery-th it aborts. The transactional ID is
	// its group instance ID, too (KIP-345). It tells log how transactions end; one that fails does not end it.
	Copy(ctx context.Context, group, in, out, id string, log MemberLog) error
}

// AbortEvery is how many transactions a copier makes for each that it aborts on purpose.
const AbortEvery = 8

// TransactionTimeout is long enough for a restart of the broker.
const TransactionTimeout = 20 * time.Second

// member runs a member until standard input ends.
func member(group, topic string, c Client) int {
	return untilInputEnds(func(ctx context.Context, log MemberLog) error { return c.Member(ctx, group, topic, log) })
}

// transact runs a copier until standard input ends.
func transact(group, in, out, id string, c Client) int {
	copier, ok := c.(Copier)
	if !ok {
		fmt.Fprintln(os.Stderr, "this client has no transactions")
		return 2
	}
	return untilInputEnds(func(ctx context.Context, log MemberLog) error { return copier.Copy(ctx, group, in, out, id, log) })
}

func untilInputEnds(run func(context.Context, MemberLog) error) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := run(ctx, MemberLog{&lines{w: os.Stdout}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
