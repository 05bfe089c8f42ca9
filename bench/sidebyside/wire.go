//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn is one Kafka connection with one request in flight, without any client's buffering or retries.
type conn struct {
	c    net.Conn
	corr int32
	out  []byte
	in   []byte
}

func dial(addr string, limit time.Duration) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return nil, err
	}
	return &conn{c: c}, nil
}

func (c *conn) close() { c.c.Close() }

// roundTrip sends req at its version and decodes the answer. The response may refer to the
// connection's buffer and is valid until the next call.
func (c *conn) roundTrip(req kmsg.Request, limit time.Duration) (kmsg.Response, error) {
	c.corr++
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("sidebyside"))
	c.out = f.AppendRequest(c.out[:0], req, c.corr)
	if err := c.c.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	if _, err := c.c.Write(c.out); err != nil {
		return nil, err
	}
	if err := c.readFrame(); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	b := kbin.Reader{Src: c.in}
	if got := b.Int32(); got != c.corr {
		return nil, fmt.Errorf("correlation ID %d, want %d", got, c.corr)
	}
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		kmsg.SkipTags(&b)
	}
	if u, ok := resp.(kmsg.UnsafeReadFrom); ok {
		return resp, u.UnsafeReadFrom(b.Src)
	}
	return resp, resp.ReadFrom(b.Src)
}

// frameLimit bounds what a peer can make this program allocate: above the largest fetch asked for.
const frameLimit = 256 << 20

func (c *conn) readFrame() error {
	var size [4]byte
	if _, err := io.ReadFull(c.c, size[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n < 4 || n > frameLimit {
		return fmt.Errorf("frame of %d bytes", n)
	}
	if cap(c.in) < n {
		c.in = make([]byte, n)
	}
	c.in = c.in[:n]
	_, err := io.ReadFull(c.c, c.in)
	return err
}

// awaitMetadata asks again and again until the broker names itself, and returns the time of that answer.
func awaitMetadata(ctx context.Context, addr string, limit time.Duration) (time.Time, error) {
	deadline := time.Now().Add(limit)
	var last error
	for time.Now().Before(deadline) {
		if err := ctx.Err(); err != nil {
			return time.Time{}, err
		}
		if last = askMetadata(addr); last == nil {
			return time.Now(), nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Time{}, fmt.Errorf("no metadata from %s after %v: %w", addr, limit, last)
}

func askMetadata(addr string) error {
	c, err := dial(addr, time.Second)
	if err != nil {
		return err
	}
	defer c.close()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 7
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := c.roundTrip(req, 5*time.Second)
	if err != nil {
		return err
	}
	if len(resp.(*kmsg.MetadataResponse).Brokers) == 0 {
		return errors.New("no brokers yet")
	}
	return nil
}

// createTopics creates topics of the same number of partitions, some per request, and waits for each.
func createTopics(addr string, names []string, partitions int32, limit time.Duration) error {
	c, err := dial(addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.close()
	const perRequest = 20
	for len(names) > 0 {
		n := min(perRequest, len(names))
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version = 4
		req.TimeoutMillis = int32(limit.Milliseconds())
		for _, name := range names[:n] {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
			req.Topics = append(req.Topics, t)
		}
		resp, err := c.roundTrip(req, limit)
		if err != nil {
			return fmt.Errorf("create topics: %w", err)
		}
		for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				return fmt.Errorf("create topic %s: %w", t.Topic, err)
			}
		}
		names = names[n:]
	}
	return nil
}

// createLarge creates one topic in steps, as Kafka refuses requests for 10,000 partitions and more.
func createLarge(addr, topic string, total int32, limit time.Duration) error {
	const step = 5000
	if err := createTopics(addr, []string{topic}, min(total, step), limit); err != nil {
		return err
	}
	c, err := dial(addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.close()
	for n := int32(step); n < total; {
		n = min(total, n+step)
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version = 1
		req.TimeoutMillis = int32(limit.Milliseconds())
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = topic, n
		req.Topics = append(req.Topics, t)
		resp, err := c.roundTrip(req, limit)
		if err != nil {
			return fmt.Errorf("create partitions: %w", err)
		}
		for _, t := range resp.(*kmsg.CreatePartitionsResponse).Topics {
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				return fmt.Errorf("create partitions of %s: %w", t.Topic, err)
			}
		}
	}
	return awaitPartitions(c, topic, total, limit)
}

// awaitPartitions waits until the broker's metadata names a leader for each partition: Kafka answers a
// creation before its brokers know of it.
func awaitPartitions(c *conn, topic string, total int32, limit time.Duration) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 7
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(100 * time.Millisecond) {
		resp, err := c.roundTrip(req, limit)
		if err != nil {
			return fmt.Errorf("metadata: %w", err)
		}
		led := int32(0)
		for _, t := range resp.(*kmsg.MetadataResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.Leader >= 0 {
					led++
				}
			}
		}
		if led == total {
			return nil
		}
	}
	return fmt.Errorf("%s has not got %d partitions with leaders after %v", topic, total, limit)
}

// deleteTopics deletes topics by name.
func deleteTopics(addr string, names ...string) error {
	c, err := dial(addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 4
	req.TimeoutMillis = 30000
	req.TopicNames = names
	resp, err := c.roundTrip(req, 60*time.Second)
	if err != nil {
		return fmt.Errorf("delete topics: %w", err)
	}
	for _, t := range resp.(*kmsg.DeleteTopicsResponse).Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("delete topic: %w", err)
		}
	}
	return nil
}

// endOffsets returns the end offset of each of a topic's partitions.
func endOffsets(c *conn, topic string, partitions int32) ([]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 5
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, -1, -1
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	resp, err := c.roundTrip(req, 60*time.Second)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	out := make([]int64, partitions)
	for _, rt := range resp.(*kmsg.ListOffsetsResponse).Topics {
		for _, rp := range rt.Partitions {
			if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
				return nil, fmt.Errorf("end offset of %s/%d: %w", topic, rp.Partition, err)
			}
			out[rp.Partition] = rp.Offset
		}
	}
	return out, nil
}
