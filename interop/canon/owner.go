package canon

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Owner is a Client that tells what it gets and what it gives up, as groups need it whose members keep partitions over a rebalance.
type Owner interface {
	// Own joins a consumer group and processes records until ctx ends, as Member does. protocol is "classic", with the
	// range assignor, or "consumer" (KIP-848), with the broker's assignor of that name. A leader on librdkafka repeats what members
	// say of themselves to cooperative-sticky, and no broker changes the protocol of such a group. topics are separated by commas,
	// or they are one regular expression that begins with ^. Every topic's name ends with - and a number.
	Own(ctx context.Context, group, topics, protocol, assignor string, log MemberLog) error
}

// Number is one number for a partition of a topic whose name ends with - and a number.
func Number(topic string, partition int32) int32 {
	n, err := strconv.Atoi(topic[strings.LastIndexByte(topic, '-')+1:])
	if err != nil {
		panic(fmt.Sprintf("canon: the name of topic %s does not end with a number", topic))
	}
	return int32(n)*100 + partition
}

// Gained says that these partitions are the member's as well, from now on.
func (l MemberLog) Gained(partitions []int32) { l.owned("+", partitions) }

// Revoked says that the member is about to give these partitions up.
func (l MemberLog) Revoked(partitions []int32) { l.owned("-", partitions) }

// Lost says that the group has taken these partitions away, some time ago.
func (l MemberLog) Lost(partitions []int32) { l.owned("l", partitions) }

func (l MemberLog) owned(what string, partitions []int32) {
	if len(partitions) > 0 {
		l.print("%s %d %s", what, time.Now().UnixMicro(), strings.Trim(fmt.Sprint(partitions), "[]"))
	}
}

// own runs an owner until standard input ends.
func own(group, topics, protocol, assignor string, c Client) int {
	o, ok := c.(Owner)
	if !ok {
		fmt.Fprintln(os.Stderr, "this client does not tell what it owns")
		return 2
	}
	return untilInputEnds(func(ctx context.Context, log MemberLog) error {
		return o.Own(ctx, group, topics, protocol, assignor, log)
	})
}
