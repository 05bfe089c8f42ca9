package canon

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
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

// member runs a member until standard input ends.
func member(group, topic string, c Client) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := c.Member(ctx, group, topic, MemberLog{&lines{w: os.Stdout}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
