package difftest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/broker"
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/coord/streams"
	"godwit/internal/engine"
	"godwit/internal/gateway/kafka"
	"godwit/internal/meta"
	"godwit/internal/storage/wal"
	"godwit/internal/vfs"
)

// side is one of the two brokers, with what stands for its own names of things.
type side struct {
	name    string
	addr    string
	lags    bool // it applies a change of metadata some time after it has answered
	settled int  // changes of which it was awaited that they are applied
	node    int32
	cluster string
	topics  map[[16]byte]string // names of topics by their IDs
	epochs  map[int32]bool      // leader epochs that its partitions have
	apis    map[int16]kmsg.ApiVersionsResponseApiKey

	// Names by the order in which they were first seen in a case.
	members, producers, sessions map[string]string
}

// forget begins a new case.
func (s *side) forget() {
	s.members, s.producers, s.sessions = map[string]string{}, map[string]string{}, map[string]string{}
}

// startGodwit starts a broker in this process.
func startGodwit(t *testing.T) *side {
	t.Helper()
	groups := group.DefaultOptions()
	groups.InitialDelay = 0 // kfake has none
	// What is assigned is not to depend on how fast a machine is.
	at := map[string]string{"consumer.assignment.interval.ms": "0", "share.assignment.interval.ms": "0", "streams.assignment.interval.ms": "0", "streams.initial.rebalance.delay.ms": "0"}
	groups.Consumer.Defaults = at
	shares, plans := share.DefaultOptions(), streams.DefaultOptions()
	shares.Defaults, plans.Defaults = at, at
	limits := meta.Limits{DefaultPartitions: 1, DefaultReplicas: 1, MaxReplicas: 1, MaxLogs: 100_000}
	e, err := engine.Open(engine.Options{
		FS: vfs.Default, Dir: t.TempDir(), Rand: rand.New(rand.NewPCG(1, 2)), Shards: 3, FileSize: 8 << 20,
		Durability: wal.OS, Limits: limits, Groups: groups, Shares: shares, Streams: plans,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	b := broker.New(e, broker.Options{Node: e.Identity().Node, Limits: limits})
	s := kafka.New(kafka.Options{Backend: kafka.Broker(b), LogDir: "/data", DisableAutoCreate: true, GroupDefaults: at})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := errors.Join(s.Close(ctx), e.Close(ctx)); err != nil {
			t.Error(err)
		}
		<-served
	})
	return &side{name: "Godwit", addr: ln.Addr().String()}
}

// startKfake starts a fake cluster of one node.
func startKfake(t *testing.T) *side {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &side{name: "kfake", addr: c.ListenAddrs()[0]}
}

// meet learns what a broker calls itself and what it serves.
func (s *side) meet(t *testing.T) {
	t.Helper()
	s.topics, s.epochs = map[[16]byte]string{}, map[int32]bool{}
	s.forget()
	c := dial(t, s)
	defer c.close()
	av := kmsg.NewPtrApiVersionsRequest()
	av.Version, av.ClientSoftwareName, av.ClientSoftwareVersion = 3, "difftest", "1"
	resp, err := c.call(av)
	if err != nil {
		t.Fatal(err)
	}
	s.apis = map[int16]kmsg.ApiVersionsResponseApiKey{}
	for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		s.apis[k.ApiKey] = k
	}
	m := kmsg.NewPtrMetadataRequest()
	m.Version, m.Topics = 12, []kmsg.MetadataRequestTopic{}
	resp, err = c.call(m)
	if err != nil {
		t.Fatal(err)
	}
	md := resp.(*kmsg.MetadataResponse)
	s.node, s.cluster = md.ControllerID, *md.ClusterID
}

// conn is a connection on which one request is under way at a time.
type conn struct {
	t    *testing.T
	side *side
	nc   net.Conn // nil after the broker closed it
	next int32
}

func dial(t *testing.T, s *side) *conn {
	t.Helper()
	c := &conn{t: t, side: s}
	c.open()
	return c
}

func (c *conn) open() {
	nc, err := net.Dial("tcp", c.side.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.nc = nc
}

func (c *conn) close() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

// What a broker does in place of answering.
var (
	errClosed = errors.New("connection closed")
	errSilent = errors.New("no answer")
)

// patience is how long an answer may take. No request of the tape has to wait for a time to pass.
const patience = 10 * time.Second

// call sends a request, whose version is set, and reads its response. After an error the next call dials again.
func (c *conn) call(req kmsg.Request) (kmsg.Response, error) {
	if c.nc == nil {
		c.open()
	}
	c.next++
	c.nc.SetDeadline(time.Now().Add(patience))
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("difftest")).AppendRequest(nil, req, c.next)
	if _, err := c.nc.Write(frame); err != nil {
		return nil, c.broken(err)
	}
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		return nil, nil
	}
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		return nil, c.broken(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.nc, b); err != nil {
		return nil, c.broken(err)
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != c.next {
		return nil, fmt.Errorf("%s: the response is for request %d, want %d", c.side.name, got, c.next)
	}
	b = b[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil && req.Key() == int16(kmsg.ApiVersions) {
		resp.SetVersion(0) // KIP-511
		return resp, resp.ReadFrom(b)
	} else if err != nil {
		return nil, fmt.Errorf("%s: the %T of version %d cannot be decoded: %w", c.side.name, resp, resp.GetVersion(), err)
	}
	return resp, nil
}

func (c *conn) broken(err error) error {
	c.close()
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errSilent
	}
	return errClosed
}

// ask is call, again as long as the broker says that it is not ready yet, until it has applied what the request changes.
func (c *conn) ask(req kmsg.Request) (kmsg.Response, error) {
	for end := time.Now().Add(patience); ; {
		resp, err := c.call(req)
		if err != nil || resp == nil {
			return resp, err
		}
		if notYet(reflect.ValueOf(resp)) && time.Now().Before(end) {
			continue
		}
		if c.side.lags && slices.Contains(alterations, kmsg.Key(req.Key())) {
			c.settle()
		}
		return resp, nil
	}
}

// unready are the errors that pass by themselves. None of them is what a case is about.
var unready = []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.ConcurrentTransactions}

// notYet reports whether there is one of them anywhere in a response.
func notYet(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && notYet(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if notYet(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if v.Type().Field(i).Name == "ErrorCode" {
				if slices.ContainsFunc(unready, func(e *kerr.Error) bool { return int64(e.Code) == f.Int() }) {
					return true
				}
			} else if notYet(f) {
				return true
			}
		}
	}
	return false
}

// alterations are the requests that change metadata.
var alterations = []kmsg.Key{kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.CreatePartitions, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs}

// settle waits until the broker has applied the changes that were answered. Metadata is applied in order, one change by all
// parts of the broker before the next is seen by any: so once the second of two more changes is seen, all before are in force.
func (c *conn) settle() {
	c.t.Helper()
	for range 2 {
		c.side.settled++
		want := fmt.Sprint(1_000_000 + c.side.settled)
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		rr := kmsg.NewIncrementalAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, settleTopic
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Value = "retention.ms", &want
		rr.Configs = append(rr.Configs, rc)
		req.Version, req.Resources = 1, append(req.Resources, rr)
		if _, err := c.call(req); err != nil {
			c.t.Fatal(err)
		}
		look := kmsg.NewPtrDescribeConfigsRequest()
		lr := kmsg.NewDescribeConfigsRequestResource()
		lr.ResourceType, lr.ResourceName, lr.ConfigNames = rr.ResourceType, rr.ResourceName, []string{rc.Name}
		look.Version, look.Resources = 4, append(look.Resources, lr)
		for seen, end := false, time.Now().Add(patience); !seen; {
			resp, err := c.call(look)
			if err != nil || time.Now().After(end) {
				c.t.Fatalf("%s does not apply changes: %v", c.side.name, err)
			}
			r := resp.(*kmsg.DescribeConfigsResponse).Resources[0]
			seen = len(r.Configs) == 1 && r.Configs[0].Value != nil && *r.Configs[0].Value == want
		}
	}
}

// settleTopic is a topic of no case.
const settleTopic = "c0-settle"
