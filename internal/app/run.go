package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"godwit/internal/base"
	"godwit/internal/engine"
	"godwit/internal/gateway/http"
	"godwit/internal/gateway/kafka"
	"godwit/internal/settings"
	"godwit/internal/storage/wal"
	"godwit/internal/vfs"
)

// Run serves until ctx ends, then drains and returns. ready is called once all listeners listen, with their real
// addresses by name.
func Run(ctx context.Context, s *settings.Settings, log *slog.Logger, ready func(addrs map[string]string)) error {
	if err := vfs.RaiseFileLimit(); err != nil {
		log.Debug("open files stay limited", "error", err)
	}
	var webAddr atomic.Pointer[string] // where the HTTP gateway listens, once it does
	n, err := startNode(ctx, optionsOf(s, log, &webAddr), log)
	if err != nil {
		return err
	}
	addrs := map[string]string{}
	if n.listener != nil {
		addrs["kafka"] = n.listener.Addr().String()
	}
	web, webDone, err := serveHTTP(n, s, log, addrs)
	if err != nil {
		return errors.Join(err, n.stop(s.ShutdownTimeout))
	}
	if at, ok := addrs["http"]; ok {
		webAddr.Store(&at)
	}
	ready(addrs)
	select {
	case <-ctx.Done():
		log.Info("stopping: answering what is under way")
	case err = <-n.served:
		err = fmt.Errorf("the Kafka listener ended: %w", err)
	case err = <-webDone:
		err = fmt.Errorf("the HTTP listener ended: %w", err)
	}
	stop, cancel := context.WithTimeout(context.Background(), s.ShutdownTimeout)
	defer cancel()
	if web != nil {
		err = errors.Join(err, web.Close(stop))
	}
	if err = errors.Join(err, n.stop(s.ShutdownTimeout)); err == nil {
		log.Info("stopped")
	}
	return err
}

func optionsOf(s *settings.Settings, log *slog.Logger, web *atomic.Pointer[string]) nodeOptions {
	d := wal.Sync
	if s.Durability == "os" {
		d = wal.OS
		log.Warn("durability is 'os': what was acknowledged in the last seconds is lost when the machine loses power")
	}
	e := engineOptions(s.Data, s.NumPartitions, d, log)
	e.FileSize, e.ReserveFree, e.TopicDefaults = int64(s.WALFileSize), int64(s.ReserveFree), s.TopicDefaults
	setGroupOptions(&e, s)
	e.CheckpointEvery, e.RetentionEvery = s.CheckpointInterval, s.RetentionCheckInterval
	return nodeOptions{
		engine: e,
		listen: s.Kafka,
		kafka: kafka.Options{
			Advertise: s.Advertise, DisableAutoCreate: !s.AutoCreateTopics, TopicDefaults: s.TopicDefaults, GroupDefaults: e.Groups.Consumer.Defaults, LogDir: s.Data,
			MaxRequestBytes: int(s.MaxRequestBytes), MaxInFlightBytes: int64(s.MaxInflightBytes), MaxConnections: s.MaxConnections,
			BrokerConfigs: func() []kafka.ConfigEntry { return brokerConfigs(s, web.Load()) },
		},
	}
}

// serveHTTP starts the HTTP gateway; nothing if it is off.
func serveHTTP(n *node, s *settings.Settings, log *slog.Logger, addrs map[string]string) (*http.Server, <-chan error, error) {
	if settings.Off(s.HTTP) {
		return nil, nil, nil
	}
	ln, err := net.Listen("tcp", s.HTTP)
	if err != nil {
		return nil, nil, fmt.Errorf("listening for HTTP: %w; choose another --http address, or 'off'", err)
	}
	addrs["http"] = ln.Addr().String()
	web := http.New(http.Options{Metrics: n.metrics, Pprof: s.Pprof, Log: log, Groups: n.lags, Cluster: n.engine.View().ClusterID,
		Ready: func() error { return readiness(n.engine) },
		Losses: func(ctx context.Context) (out []http.Entry, err error) {
			ls, err := n.broker.Losses(ctx)
			for _, l := range ls {
				out = append(out, l)
			}
			return out, err
		},
	})
	done := make(chan error, 1)
	go func() {
		if err := web.Serve(ln); err != nil {
			done <- err
		}
	}()
	return web, done, nil
}

// readiness says why the node would refuse writes.
func readiness(e *engine.Engine) error {
	switch e.Writer().State() {
	case wal.StateFull:
		return base.Errorf(base.CodeDiskFull, "the disk is full: reads and deletion go on, data is refused")
	case wal.StateFailed:
		return base.Errorf(base.CodeStorage, "the log cannot be written: reads go on")
	}
	return nil
}
