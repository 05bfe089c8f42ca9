//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A sink answers producers as a broker of one node would and stores nothing: what a load tool reaches
// against it is the tool's own ceiling on this machine. Every topic exists.

// sinkVersions are the requests a sink serves, with the highest version of each.
var sinkVersions = map[int16]int16{
	int16(kmsg.Produce):        12, // 13 names topics by ID
	int16(kmsg.Metadata):       12,
	int16(kmsg.ApiVersions):    4,
	int16(kmsg.InitProducerID): 4,
}

type sink struct {
	host       string
	port       int32
	partitions int32 // of every topic

	mu      sync.Mutex
	offsets map[string]int64
}

// serveSink listens on addr and serves until the listener fails.
func serveSink(addr string, partitions int32, ready io.Writer) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return err
	}
	s := &sink{host: host, port: int32(n), partitions: partitions, offsets: map[string]int64{}}
	fmt.Fprintf(ready, "ready %s\n", l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			// A connection that ends or misbehaves concerns its client only.
			_ = s.serve(c)
		}()
	}
}

func (s *sink) serve(nc net.Conn) error {
	c := &conn{c: nc}
	var out []byte
	for {
		if err := c.readFrame(); err != nil {
			return err
		}
		if len(c.in) < 8 {
			return errors.New("short request")
		}
		key := int16(binary.BigEndian.Uint16(c.in))
		version := int16(binary.BigEndian.Uint16(c.in[2:]))
		corr := c.in[4:8]
		resp, err := s.handle(key, version, c.in[8:])
		if err != nil {
			return err
		}
		if resp == nil {
			continue
		}
		out = append(out[:0], 0, 0, 0, 0)
		out = append(out, corr...)
		if resp.IsFlexible() && key != int16(kmsg.ApiVersions) {
			out = append(out, 0)
		}
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := nc.Write(out); err != nil {
			return err
		}
	}
}

// handle decodes the rest of the request, after the correlation ID, and answers it; a nil response
// means that none is expected.
func (s *sink) handle(key, version int16, rest []byte) (kmsg.Response, error) {
	highest, ok := sinkVersions[key]
	if !ok {
		return nil, fmt.Errorf("request key %d is not served", key)
	}
	if version > highest {
		if key != int16(kmsg.ApiVersions) {
			return nil, fmt.Errorf("request key %d version %d is not served", key, version)
		}
		return sinkAPIVersions(0, 35), nil
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	b := kbin.Reader{Src: rest}
	b.NullableString() // client ID
	if req.IsFlexible() {
		kmsg.SkipTags(&b)
	}
	if err := readRequest(req, b.Src); err != nil {
		return nil, err
	}
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		return sinkAPIVersions(version, 0), nil
	case *kmsg.MetadataRequest:
		return s.metadata(r), nil
	case *kmsg.InitProducerIDRequest:
		resp := r.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ProducerID = 1
		return resp, nil
	case *kmsg.ProduceRequest:
		return s.produce(r), nil
	}
	return nil, fmt.Errorf("request key %d is not served", key)
}

func readRequest(req kmsg.Request, src []byte) error {
	if u, ok := req.(kmsg.UnsafeReadFrom); ok {
		return u.UnsafeReadFrom(src)
	}
	return req.ReadFrom(src)
}

func sinkAPIVersions(version, errorCode int16) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version, resp.ErrorCode = version, errorCode
	for key, highest := range sinkVersions {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = key, highest
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	return resp
}

func (s *sink) metadata(r *kmsg.MetadataRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.MetadataResponse)
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port = 1, s.host, s.port
	resp.Brokers = append(resp.Brokers, b)
	resp.ControllerID = 1
	for _, t := range r.Topics {
		if t.Topic == nil {
			continue
		}
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic = t.Topic
		copy(rt.TopicID[:], *t.Topic)
		for p := range s.partitions {
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Partition, rp.Leader, rp.LeaderEpoch = p, 1, 1
			rp.Replicas, rp.ISR = []int32{1}, []int32{1}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (s *sink) produce(r *kmsg.ProduceRequest) kmsg.Response {
	if r.Acks == 0 {
		return nil
	}
	resp := r.ResponseKind().(*kmsg.ProduceResponse)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range r.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition = p.Partition
			key := t.Topic + "/" + strconv.Itoa(int(p.Partition))
			rp.BaseOffset = s.offsets[key]
			s.offsets[key] += recordCount(p.Records)
			rp.LogAppendTime = -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// Positions in a v2 record batch.
const (
	batchLength      = 8
	batchLastDelta   = 23
	batchRecordCount = 57
	batchHeader      = 61
)

// recordCount sums the records of whole batches, by their headers.
func recordCount(b []byte) int64 {
	n, _ := walkBatches(b)
	return n
}

// walkBatches counts the records in whole batches and finds the offset after the last of them; -1 if
// there is none.
func walkBatches(b []byte) (records, next int64) {
	next = -1
	for len(b) >= batchHeader {
		size := int64(binary.BigEndian.Uint32(b[batchLength:])) + batchLength + 4
		if size < batchHeader || size > int64(len(b)) {
			break
		}
		records += int64(binary.BigEndian.Uint32(b[batchRecordCount:]))
		next = int64(binary.BigEndian.Uint64(b)) + int64(binary.BigEndian.Uint32(b[batchLastDelta:])) + 1
		b = b[size:]
	}
	return records, next
}
