package canon

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Limit is how long one client program may run before it gives up.
const Limit = 120 * time.Second

// Client is what a Go client library has to do to take part. The other languages implement the same three commands.
type Client interface {
	// Write sends each batch that next returns, waits for its acknowledgement and passes the offsets to done, in the order
	// of the records. It ends when next returns false.
	Write(ctx context.Context, topic, codec string, next func() ([]Record, bool), done func([]int64)) error
	// Read reads topics from the beginning by assigned partitions until count records of each were passed to out.
	Read(ctx context.Context, count int, topics []string, out func(Record)) error
	// Group joins a consumer group, passes count records to out, commits just these and leaves.
	Group(ctx context.Context, count int, group, topic string, out func(Record)) error
	// Member joins a consumer group with the range assignor and processes records until ctx ends; then it leaves. It tells
	// log what happens and commits after at most MemberBatch records. A refused commit does not end it.
	Member(ctx context.Context, group, topic string, log MemberLog) error
}

// How members behave, whatever their library.
const (
	MemberBatch     = 50
	MemberSession   = 6 * time.Second
	MemberRebalance = 10 * time.Second
	MemberHeartbeat = time.Second
	MemberWork      = 30 * time.Millisecond  // between processing a batch and its commit
	MemberFetch     = 300 * time.Millisecond // the longest wait of a fetch
	MemberMetadata  = 2 * time.Second        // until an owner sees new topics and partitions
)

const usage = `usage:
  write BROKER TOPIC CODEC         batches on standard input, acknowledged offsets on standard output
  read BROKER COUNT TOPIC...       COUNT records of each topic by assigned partitions from offset 0
  group BROKER COUNT GROUP TOPIC   COUNT records as a member of a consumer group, committed
  member BROKER GROUP TOPIC        a member of a consumer group until standard input ends
  copy BROKER GROUP IN OUT ID      the same, but it copies topic IN to OUT in transactions of this ID
  own BROKER GROUP TOPICS PROTOCOL ASSIGNOR   the same, but it tells of each partition that it gets and gives up
  share BROKER GROUP TOPIC SEED    a member of a share group until standard input ends`

// Main runs a client program: it dials the broker named on the command line and runs one command. It returns the exit code.
func Main(args []string, dial func(broker string) Client) int {
	if len(args) < 4 {
		fmt.Fprintln(os.Stderr, usage)
		return 2
	}
	if args[0] == "member" && len(args) == 4 {
		return member(args[2], args[3], dial(args[1]))
	}
	if args[0] == "copy" && len(args) == 6 {
		return transact(args[2], args[3], args[4], args[5], dial(args[1]))
	}
	if args[0] == "own" && len(args) == 6 {
		return own(args[2], args[3], args[4], args[5], dial(args[1]))
	}
	if args[0] == "share" && len(args) == 5 {
		return share(args[2], args[3], args[4], dial(args[1]))
	}
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	out := bufio.NewWriter(os.Stdout)
	err := run(ctx, args, dial(args[1]), out)
	if ferr := out.Flush(); err == nil {
		err = ferr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string, c Client, out *bufio.Writer) error {
	print := func(r Record) { out.Write(Line(r)) } // a failed write is reported by Flush
	switch {
	case args[0] == "write" && len(args) == 4:
		return write(ctx, args[2], args[3], c, out)
	case args[0] == "read":
		count, err := strconv.Atoi(args[2])
		if err != nil {
			return fmt.Errorf("COUNT: %w", err)
		}
		return c.Read(ctx, count, args[3:], print)
	case args[0] == "group" && len(args) == 5:
		count, err := strconv.Atoi(args[2])
		if err != nil {
			return fmt.Errorf("COUNT: %w", err)
		}
		return c.Group(ctx, count, args[3], args[4], print)
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}

func write(ctx context.Context, topic, codec string, c Client, out *bufio.Writer) error {
	var batches [][]Record
	err := ReadLines(os.Stdin, func(b []Record) error {
		batches = append(batches, b)
		return nil
	})
	if err != nil {
		return err
	}
	next := func() ([]Record, bool) {
		if len(batches) == 0 {
			return nil, false
		}
		b := batches[0]
		batches = batches[1:]
		return b, true
	}
	return c.Write(ctx, topic, codec, next, func(offsets []int64) { out.Write(Line(offsets)) })
}
