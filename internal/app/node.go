package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"godwit/internal/broker"
	"godwit/internal/clock"
	"godwit/internal/coord/group"
	"godwit/internal/engine"
	"godwit/internal/gateway/kafka"
	"godwit/internal/meta"
	"godwit/internal/storage/wal"
	"godwit/internal/vfs"
)

// nodeOptions are what a node needs, whatever the settings look like.
type nodeOptions struct {
	engine engine.Options
	kafka  kafka.Options
	listen string // of the Kafka gateway; "" or "off" for none
}

// node is a running broker with its Kafka gateway.
type node struct {
	engine  *engine.Engine
	broker  *broker.Broker
	lags    *broker.Lags
	metrics *prometheus.Registry
	log     *slog.Logger

	kafka    *kafka.Server
	listener net.Listener
	served   chan error
}

// limits of a lone node.
func limits(partitions int) meta.Limits {
	return meta.Limits{DefaultPartitions: partitions, DefaultReplicas: 1, MaxReplicas: 1, MaxLogs: maxLogs}
}

// maxLogs bounds the partitions of all topics of a node.
const maxLogs = 1_000_000

// engineOptions are the engine's with what only the process knows.
func engineOptions(dir string, partitions int, d wal.Durability, log *slog.Logger) engine.Options {
	return engine.Options{
		FS: vfs.Default, Dir: dir, Log: log, Durability: d, Limits: limits(partitions), Groups: group.DefaultOptions(),
		Rand: rand.New(rand.NewChaCha8(seed())),
	}
}

// startNode recovers the data directory and begins to serve.
func startNode(ctx context.Context, o nodeOptions, log *slog.Logger) (*node, error) {
	e, err := engine.Open(o.engine)
	if err != nil {
		return nil, err
	}
	n := &node{engine: e, log: log, metrics: prometheus.NewRegistry(), served: make(chan error, 1)}
	if err := e.Start(); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	n.metrics.MustRegister(newCollector(e), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n.broker = broker.New(e, broker.Options{Node: e.Identity().Node, Limits: o.engine.Limits})
	n.lags = broker.NewLags(n.broker, clock.System{})
	n.metrics.MustRegister(newLagCollector(n.lags), newSumCollector(e, clock.System{}))
	if o.listen == "" || o.listen == "off" {
		return n, nil
	}
	if n.listener, err = net.Listen("tcp", o.listen); err != nil {
		return nil, errors.Join(fmt.Errorf("listening for Kafka clients: %w; choose another --kafka address, or stop what uses this one", err), e.Close(ctx))
	}
	k := o.kafka
	k.Backend, k.Metrics, k.Log = kafka.Broker(n.broker), n.metrics, log
	n.kafka = kafka.New(k)
	go func() { n.served <- n.kafka.Serve(context.Background(), n.listener) }()
	return n, nil
}

// stop answers what is under way, writes what is queued and gives everything back.
func (n *node) stop(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var err error
	if n.kafka != nil {
		err = n.kafka.Close(ctx)
	}
	return errors.Join(err, n.engine.Close(ctx))
}
