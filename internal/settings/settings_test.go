package settings

import (
	"strings"
	"testing"
	"time"
)

func valid() Settings {
	return Settings{Kafka: "127.0.0.1:9092", HTTP: "off", AMQP: "off", MQTT: "off", NATS: "off", WALFileSize: 256 << 20, NumPartitions: 1,
		MaxConnections: 1, MaxRequestBytes: 1 << 20, MaxInflightBytes: 1 << 20, CheckpointInterval: time.Second,
		RetentionCheckInterval: time.Second, ShutdownTimeout: time.Second}
}

func TestValidate(t *testing.T) {
	s := valid()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Settings){
		"kafka":                    func(s *Settings) { s.Kafka = "nowhere" },
		"http":                     func(s *Settings) { s.HTTP = "127.0.0.1:99999" },
		"amqp":                     func(s *Settings) { s.AMQP = "127.0.0.1:5672" },
		"mqtt":                     func(s *Settings) { s.MQTT = "127.0.0.1:1883" },
		"nats":                     func(s *Settings) { s.NATS = "127.0.0.1:4222" },
		"advertise":                func(s *Settings) { s.Advertise = "a b" },
		"wal-file-size":            func(s *Settings) { s.WALFileSize = 3 << 30 },
		"num-partitions":           func(s *Settings) { s.NumPartitions = 0 },
		"max-connections":          func(s *Settings) { s.MaxConnections = 0 },
		"max-request-bytes":        func(s *Settings) { s.MaxRequestBytes = 1 },
		"checkpoint-interval":      func(s *Settings) { s.CheckpointInterval = 0 },
		"retention-check-interval": func(s *Settings) { s.RetentionCheckInterval = time.Microsecond },
		"max-inflight-bytes":       func(s *Settings) { s.MaxInflightBytes = s.MaxRequestBytes - 1 },
		"reserve-free":             func(s *Settings) { s.ReserveFree = -1 },
		"shutdown-timeout":         func(s *Settings) { s.ShutdownTimeout = 0 },
		"group-settings":           func(s *Settings) { s.GroupSettings = map[string]string{"group.max.size": "0"} },
		"topic-defaults":           func(s *Settings) { s.TopicDefaults = map[string]string{"retention.ms": "x"} },
	} {
		s := valid()
		spoil(&s)
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), name+":") {
			t.Errorf("spoilt %s: error %v", name, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for addr, good := range map[string]bool{
		"off": true, "": true, "127.0.0.1:0": true, ":9092": true, "[::1]:9092": true, "broker.example:65535": true,
		"9092": false, "127.0.0.1": false, "::1:9092": false, "a:65536": false, "a:-1": false, "a:http": false, "OFF": false,
	} {
		s := valid()
		s.Kafka, s.HTTP = addr, addr
		if err := s.Validate(); (err == nil) != good {
			t.Errorf("listener %q: %v", addr, err)
		}
	}
	for addr, good := range map[string]bool{
		"": true, "broker.example": true, "broker.example:9092": true, "10.0.0.1": true, "::1": true, "[::1]:9092": true,
		":9092": false, "a:0": false, "a:b": false, "a b": false, "http://a": false, "a:65536": false, "[::1]": false, "a:1:2": false,
	} {
		s := valid()
		s.Advertise = addr
		if err := s.Validate(); (err == nil) != good {
			t.Errorf("advertise %q: %v", addr, err)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "1048576": 1 << 20, "1MiB": 1 << 20, " 3 KiB ": 3 << 10, "2GB": 2e9, "7B": 7, "1TiB": 1 << 40} {
		var z Size
		if err := z.UnmarshalText([]byte(text)); err != nil || z != want {
			t.Errorf("%q: %d, %v; want %d", text, z, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "9223372036854775807KiB", "1 mib"} {
		var z Size
		if err := z.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, z)
		}
	}
	if s := Size(256 << 20).String(); s != "256MiB" {
		t.Errorf("256 MiB is written %q", s)
	}
}

func TestReadFile(t *testing.T) {
	names := []string{"data", "wal-file-size", "topic-defaults", "pprof"}
	f, err := ReadFile(strings.NewReader("data: /d\nwal-file-size: 64MiB\npprof: true\ntopic-defaults:\n  retention.ms: 5\n  cleanup.policy: compact,delete\n"), names)
	if err != nil || f["data"] != "/d" || f["wal-file-size"] != "64MiB" || f["pprof"] != "true" || f["topic-defaults"] != "cleanup.policy=compact,delete;retention.ms=5" {
		t.Fatalf("read %v, %v", f, err)
	}
	for text, want := range map[string]string{"data: off": "off", "data: 0.5": "0.5", "data: 604800000": "604800000", "data: 5m": "5m"} {
		if f, err := ReadFile(strings.NewReader(text), names); err != nil || f["data"] != want {
			t.Errorf("%q: read %v, %v", text, f, err)
		}
	}
	if f, err := ReadFile(strings.NewReader(""), names); err != nil || len(f) != 0 {
		t.Fatalf("an empty file: %v, %v", f, err)
	}
	for text, want := range map[string]string{"wal-filesize: 1": "wal-file-size", "datta: x": "\"data\"", "data: [1]": "list", "- a": "not a YAML map",
		"data:": "missing", "data: a\n---\ndata: b": "more than one", "data: a\ndata: b": "already defined"} {
		if _, err := ReadFile(strings.NewReader(text), names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one about %s", text, err, want)
		}
	}
}

func FuzzReadFile(f *testing.F) {
	f.Add("data: x")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ReadFile(strings.NewReader(text), []string{"data"})
		if err == nil {
			for k := range m {
				if k != "data" {
					t.Fatalf("unknown key %q was accepted", k)
				}
			}
		}
	})
}

func FuzzSize(f *testing.F) {
	f.Add("1MiB")
	f.Fuzz(func(t *testing.T, text string) {
		var z, back Size
		if err := z.UnmarshalText([]byte(text)); err != nil {
			return
		}
		if err := back.UnmarshalText([]byte(z.String())); err != nil || back != z {
			t.Fatalf("%q is %d, written %q, read back as %d (%v)", text, z, z.String(), back, err)
		}
	})
}
