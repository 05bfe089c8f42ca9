package kafka

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/internal/bench/driver"
)

// settings are the query parameters of a kafka:// URL.
type settings struct {
	compression kgo.CompressionCodec
	acks        kgo.Acks
	idempotent  bool
	linger      time.Duration // how long the client waits for more messages of a batch
	replicas    int16         // of each partition; -1 leaves it to the broker
	session     time.Duration // until a group gives up a silent member; 0 leaves it to the client, which takes 45 s
}

// readSettings reads compression=none|gzip|snappy|lz4|zstd, acks=all|1|0, idempotent=true|false (with acks=all only),
// linger=TIME, replicas=N, session=TIME. Without linger the client sends at once, as Kafka's own clients did for most of their
// life: the 10 ms that this one waits by itself would hide what the broker takes.
func readSettings(u *url.URL) (s settings, err error) {
	q, err := driver.Settings(u, "acks", "compression", "idempotent", "linger", "replicas", "session")
	if err != nil {
		return s, err
	}
	s = settings{replicas: -1}
	codecs := map[string]kgo.CompressionCodec{
		"": kgo.NoCompression(), "none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	var ok bool
	if s.compression, ok = codecs[q.Get("compression")]; !ok {
		return s, fmt.Errorf("compression=%s is none of none, gzip, snappy, lz4 and zstd", q.Get("compression"))
	}
	acks := map[string]kgo.Acks{
		"": kgo.AllISRAcks(), "all": kgo.AllISRAcks(), "-1": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck(),
	}
	if s.acks, ok = acks[q.Get("acks")]; !ok {
		return s, fmt.Errorf("acks=%s is none of all, 1 and 0", q.Get("acks"))
	}
	s.idempotent = s.acks == kgo.AllISRAcks()
	if v := q.Get("idempotent"); v != "" {
		b, err := strconv.ParseBool(v)
		if err != nil || b && !s.idempotent {
			return s, fmt.Errorf("idempotent=%s is neither false nor, with acks=all, true", v)
		}
		s.idempotent = b
	}
	if v := q.Get("linger"); v != "" {
		if s.linger, err = time.ParseDuration(v); err != nil || s.linger < 0 || s.linger > time.Minute {
			return s, fmt.Errorf("linger=%s is not a time such as 5ms, at most 1m", v)
		}
	}
	if v := q.Get("session"); v != "" {
		if s.session, err = time.ParseDuration(v); err != nil || s.session < time.Millisecond {
			return s, fmt.Errorf("session=%s is not a time such as 45s", v)
		}
	}
	if v := q.Get("replicas"); v != "" {
		n, err := strconv.ParseInt(v, 10, 16)
		if err != nil || n < 1 {
			return s, fmt.Errorf("replicas=%s is not a number of replicas", v)
		}
		s.replicas = int16(n)
	}
	return s, nil
}

// sender are the options of a client that sends, with so many records in flight.
func (s settings) sender(noAck bool, inFlight int) []kgo.Opt {
	return append(s.producer(noAck),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(max(inFlight+1, topicsPerClient)),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.ProducerBatchMaxBytes(maxBatch),
	)
}

// producer are the client's options that settings ask for.
func (s settings) producer(noAck bool) []kgo.Opt {
	if noAck {
		s.acks, s.idempotent = kgo.NoAck(), false
	}
	o := []kgo.Opt{kgo.ProducerBatchCompression(s.compression), kgo.RequiredAcks(s.acks), kgo.ProducerLinger(s.linger)}
	if !s.idempotent {
		o = append(o, kgo.DisableIdempotentWrite())
	}
	return o
}
