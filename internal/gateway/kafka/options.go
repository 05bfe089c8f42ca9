package kafka

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options of a server. Zero values mean the defaults.
type Options struct {
	Backend Backend
	Log     *slog.Logger          // nothing is logged if nil
	Metrics prometheus.Registerer // nothing is registered if nil

	// Advertise is the host, or host:port, that clients are told to connect to; if empty, the address that
	// each of them used.
	Advertise string

	DisableAutoCreate bool // auto.create.topics.enable=false

	TopicDefaults map[string]string    // broker-wide topic configuration, by the topics' names
	GroupDefaults map[string]string    // broker-wide group configuration, by the groups' names
	BrokerConfigs func() []ConfigEntry // the broker's settings as clients are shown them; none if nil
	LogDir        string               // the data directory as clients are shown it

	MaxRequestBytes      int           // of a produce request; socket.request.max.bytes, 100 MiB
	MaxControlBytes      int           // of any other request; 16 MiB
	MaxInFlightBytes     int64         // of all requests that are not answered; 512 MiB, at least one of each limit above
	MaxConnInFlightBytes int64         // of those of one connection; 128 MiB, at least MaxRequestBytes
	MaxPipelined         int           // produce requests of one connection that are being written; 32
	MaxConnections       int           // max.connections; 20,000
	IdleTimeout          time.Duration // connections.max.idle.ms, 10 min
	ReadTimeout          time.Duration // for the rest of a request once it has begun; 1 min
	WriteTimeout         time.Duration // for a response, besides a second for each 64 KiB; 2 min

	FetchMaxBytes     int // most bytes of one fetch response; fetch.max.bytes, 55 MiB
	FetchSessions     int // max.incremental.fetch.session.cache.slots, 1000; below 0 for none
	ShareSessions     int // group.share.max.share.sessions, 2000
	PartitionsPerPage int // of DescribeTopicPartitions; max.request.partition.size.limit, 2000
}

func orDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

func (o *Options) fill() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	orDefault(&o.MaxRequestBytes, 100<<20)
	orDefault(&o.MaxControlBytes, 16<<20)
	o.MaxControlBytes = min(o.MaxControlBytes, o.MaxRequestBytes)
	orDefault(&o.MaxInFlightBytes, 512<<20)
	o.MaxInFlightBytes = max(o.MaxInFlightBytes, int64(o.MaxRequestBytes)+int64(o.MaxControlBytes))
	orDefault(&o.MaxConnInFlightBytes, 128<<20)
	o.MaxConnInFlightBytes = max(o.MaxConnInFlightBytes, int64(o.MaxRequestBytes))
	orDefault(&o.MaxPipelined, 32)
	orDefault(&o.MaxConnections, 20_000)
	orDefault(&o.IdleTimeout, 10*time.Minute)
	orDefault(&o.ReadTimeout, time.Minute)
	orDefault(&o.WriteTimeout, 2*time.Minute)
	orDefault(&o.FetchMaxBytes, 55<<20)
	orDefault(&o.FetchSessions, 1000)
	orDefault(&o.ShareSessions, 2000)
	orDefault(&o.PartitionsPerPage, 2000)
}

// controlShare is the part of MaxInFlightBytes that is for requests that are not Produce: a quarter, but so that
// the largest request of either kind fits into its part. Producers that are slow, or send more than the disk takes,
// thus do not hold up fetches and heartbeats.
func (o *Options) controlShare() int64 {
	return min(max(o.MaxInFlightBytes/4, int64(o.MaxControlBytes)), o.MaxInFlightBytes-int64(o.MaxRequestBytes))
}
