// Package settings is the one list of the broker's settings: each field is a flag of `godwit serve`, an environment variable and a key
// of the YAML file, under one name.
//
// The name `wal-file-size` is the flag --wal-file-size, the variable GODWIT_WAL_FILE_SIZE and the key
// wal-file-size. A flag wins over the environment, the environment over the file, the file over the default.
package settings

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit/internal/groupconf"
	"godwit/internal/topicconf"
)

// Settings of a broker. The tags are what the command line shows.
type Settings struct {
	Data string `default:"./data" placeholder:"DIR" help:"Data directory. It is made if it does not exist."`

	Kafka string `default:"127.0.0.1:9092" placeholder:"HOST:PORT" help:"Where Kafka clients connect; 'off' for nowhere, port 0 for any free one."`
	AMQP  string `name:"amqp" default:"off" placeholder:"HOST:PORT" help:"Where AMQP 0-9-1 clients connect. Not in this release: only 'off'."`
	MQTT  string `name:"mqtt" default:"off" placeholder:"HOST:PORT" help:"Where MQTT clients connect. Not in this release: only 'off'."`
	NATS  string `name:"nats" default:"off" placeholder:"HOST:PORT" help:"Where NATS clients connect. Not in this release: only 'off'."`
	HTTP  string `name:"http" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where /metrics, /healthz and /readyz are served; 'off' for nowhere, port 0 for any free one."`

	Advertise string `placeholder:"HOST[:PORT]" help:"Address that Kafka clients are told to connect to. By default each is told the one it used."`

	Durability  string `default:"sync" enum:"sync,os" help:"When a write is acknowledged: 'sync', when it is on disk; 'os', when the operating system has it, which a loss of power may undo."`
	WALFileSize Size   `name:"wal-file-size" default:"256MiB" help:"Size of one file of the log: 1MiB to 2GiB. No record batch can be larger."`
	ReserveFree Size   `default:"256MiB" help:"Free disk space that data may not use, so that deletion stays possible when the disk is full."`

	AutoCreateTopics bool              `default:"true" negatable:"" help:"Make a topic when a client that allows it asks for one that does not exist."`
	NumPartitions    int               `default:"1" help:"Partitions of a topic whose creator does not say."`
	TopicDefaults    map[string]string `placeholder:"NAME=VALUE" help:"Configuration of topics that do not set it themselves, such as retention.ms=86400000."`
	GroupSettings    map[string]string `placeholder:"NAME=VALUE" help:"Settings of consumer and share groups by Kafka's names, such as group.consumer.session.timeout.ms=45000."`

	MaxConnections   int  `default:"20000" help:"Connections of Kafka clients at a time."`
	MaxRequestBytes  Size `default:"100MiB" help:"Size of one request."`
	MaxInflightBytes Size `default:"512MiB" help:"Size of all requests that are not answered yet."`

	CheckpointInterval     time.Duration `default:"30s" help:"How often state is saved, so that a start need not read the whole log."`
	RetentionCheckInterval time.Duration `default:"10s" help:"How often retention and compaction look for work."`
	ShutdownTimeout        time.Duration `default:"30s" help:"How long SIGTERM waits for requests that are under way."`

	LogLevel  string `default:"info" enum:"debug,info,warn,error" help:"What is logged: debug, info, warn or error."`
	LogFormat string `default:"text" enum:"text,json" help:"How it is logged: text or json."`
	Pprof     bool   `help:"Serve profiles at /debug/pprof on the HTTP address."`
}

// Off reports whether a listener's address says that there is none.
func Off(addr string) bool { return addr == "" || addr == "off" }

// Validate checks what the types do not. The error names the setting and what it takes.
func (s *Settings) Validate() error {
	for _, l := range []struct{ name, addr string }{{"kafka", s.Kafka}, {"http", s.HTTP}} {
		if err := checkAddress(l.name, l.addr); err != nil {
			return err
		}
	}
	for _, l := range []struct{ name, addr string }{{"amqp", s.AMQP}, {"mqtt", s.MQTT}, {"nats", s.NATS}} {
		if !Off(l.addr) {
			return fmt.Errorf("%s: %q: this release has no such listener; leave it 'off'", l.name, l.addr)
		}
	}
	if err := checkAdvertise(s.Advertise); err != nil {
		return err
	}
	for _, n := range []struct {
		name      string
		v, lo, hi int64
	}{
		{"wal-file-size", int64(s.WALFileSize), 1 << 20, 2 << 30},
		{"reserve-free", int64(s.ReserveFree), 0, math.MaxInt64},
		{"num-partitions", int64(s.NumPartitions), 1, 100_000},
		{"max-connections", int64(s.MaxConnections), 1, math.MaxInt32},
		{"max-request-bytes", int64(s.MaxRequestBytes), 1 << 10, math.MaxInt32},
		{"max-inflight-bytes", int64(s.MaxInflightBytes), 1 << 10, math.MaxInt64},
		{"checkpoint-interval", int64(s.CheckpointInterval / time.Millisecond), 1, math.MaxInt64},
		{"retention-check-interval", int64(s.RetentionCheckInterval / time.Millisecond), 1, math.MaxInt64},
		{"shutdown-timeout", int64(s.ShutdownTimeout / time.Millisecond), 1, math.MaxInt64},
	} {
		if n.v < n.lo || n.v > n.hi {
			return fmt.Errorf("%s: %d is outside %d to %d", n.name, n.v, n.lo, n.hi)
		}
	}
	if s.MaxInflightBytes < s.MaxRequestBytes {
		return fmt.Errorf("max-inflight-bytes: %v is less than one request of max-request-bytes, %v", s.MaxInflightBytes, s.MaxRequestBytes)
	}
	if err := topicconf.ValidateAll(s.TopicDefaults); err != nil {
		return fmt.Errorf("topic-defaults: %w", err)
	}
	if _, err := groupconf.ResolveBroker(s.GroupSettings); err != nil {
		return fmt.Errorf("group-settings: %w", err)
	}
	return nil
}

func checkAddress(name, addr string) error {
	if Off(addr) {
		return nil
	}
	if _, port, err := net.SplitHostPort(addr); err != nil || !isPort(port) {
		return fmt.Errorf("%s: %q is not HOST:PORT, nor 'off'", name, addr)
	}
	return nil
}

// checkAdvertise takes a host, or a host and a port that clients can connect to.
func checkAdvertise(addr string) error {
	if addr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = addr, "1"
		if net.ParseIP(addr) == nil && strings.ContainsAny(addr, ":[]") {
			host = ""
		}
	}
	if host == "" || strings.ContainsAny(host, " /") || !isPort(port) || port == "0" {
		return fmt.Errorf("advertise: %q is not HOST or HOST:PORT", addr)
	}
	return nil
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// Size is a number of bytes, written with or without a unit: 1048576, 1MiB, 64KB.
type Size int64

var units = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// UnmarshalText reads a size.
func (z *Size) UnmarshalText(b []byte) error {
	text, unit := strings.TrimSpace(string(b)), int64(1)
	for _, u := range units {
		if strings.HasSuffix(text, u.suffix) {
			text, unit = strings.TrimSpace(strings.TrimSuffix(text, u.suffix)), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is not a size: write bytes, or a number with KiB, MiB, GiB or TiB", b)
	}
	*z = Size(n * unit)
	return nil
}

func (z Size) String() string {
	for _, u := range slices.Backward(units[:4]) {
		if z != 0 && int64(z)%u.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(z)/u.bytes, u.suffix)
		}
	}
	return strconv.FormatInt(int64(z), 10)
}
