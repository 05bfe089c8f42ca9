package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"godwit/internal/settings"
)

// samples has three values of every setting, none of them the default, and what one of them is in Settings.
var samples = []struct {
	name               string
	file, env, flag    string
	get                func(*settings.Settings) any
	wantFile, wantFlag any
	wantEnv            any
}{
	{"data", "/f", "/e", "/g", func(s *settings.Settings) any { return s.Data }, "/f", "/g", "/e"},
	{"kafka", "127.0.0.1:1", "off", "127.0.0.1:0", func(s *settings.Settings) any { return s.Kafka }, "127.0.0.1:1", "127.0.0.1:0", "off"},
	{"http", "off", "127.0.0.1:2", "127.0.0.1:3", func(s *settings.Settings) any { return s.HTTP }, "off", "127.0.0.1:3", "127.0.0.1:2"},
	{"advertise", "f", "e:1", "g", func(s *settings.Settings) any { return s.Advertise }, "f", "g", "e:1"},
	{"durability", "os", "os", "os", func(s *settings.Settings) any { return s.Durability }, "os", "os", "os"},
	{"wal-file-size", "1MiB", "2097152", "3MiB", func(s *settings.Settings) any { return int64(s.WALFileSize) }, int64(1 << 20), int64(3 << 20), int64(2 << 20)},
	{"reserve-free", "1MB", "2KiB", "0", func(s *settings.Settings) any { return int64(s.ReserveFree) }, int64(1e6), int64(0), int64(2048)},
	{"auto-create-topics", "false", "false", "false", func(s *settings.Settings) any { return s.AutoCreateTopics }, false, false, false},
	{"num-partitions", "2", "3", "4", func(s *settings.Settings) any { return s.NumPartitions }, 2, 4, 3},
	{"topic-defaults", "{retention.ms: 5}", "retention.ms=6;cleanup.policy=compact,delete", "retention.ms=7",
		func(s *settings.Settings) any { return fmt.Sprint(s.TopicDefaults) }, "map[retention.ms:5]", "map[retention.ms:7]", "map[cleanup.policy:compact,delete retention.ms:6]"},
	{"group-settings", "{group.max.size: 5}", "group.max.size=6", "group.max.size=7",
		func(s *settings.Settings) any { return fmt.Sprint(s.GroupSettings) }, "map[group.max.size:5]", "map[group.max.size:7]", "map[group.max.size:6]"},
	{"max-connections", "2", "3", "4", func(s *settings.Settings) any { return s.MaxConnections }, 2, 4, 3},
	{"max-request-bytes", "2MiB", "3MiB", "4MiB", func(s *settings.Settings) any { return int64(s.MaxRequestBytes) }, int64(2 << 20), int64(4 << 20), int64(3 << 20)},
	{"max-inflight-bytes", "1GiB", "2GiB", "3GiB", func(s *settings.Settings) any { return int64(s.MaxInflightBytes) }, int64(1 << 30), int64(3 << 30), int64(2 << 30)},
	{"checkpoint-interval", "5m", "6m", "7s", func(s *settings.Settings) any { return s.CheckpointInterval.String() }, "5m0s", "7s", "6m0s"},
	{"retention-check-interval", "5m", "6m", "7s", func(s *settings.Settings) any { return s.RetentionCheckInterval.String() }, "5m0s", "7s", "6m0s"},
	{"shutdown-timeout", "5m", "6m", "7s", func(s *settings.Settings) any { return s.ShutdownTimeout.String() }, "5m0s", "7s", "6m0s"},
	{"log-level", "debug", "warn", "error", func(s *settings.Settings) any { return s.LogLevel }, "debug", "error", "warn"},
	{"log-format", "json", "json", "json", func(s *settings.Settings) any { return s.LogFormat }, "json", "json", "json"},
	{"pprof", "true", "true", "true", func(s *settings.Settings) any { return s.Pprof }, true, true, true},
}

// notYet are settings that have one value in this release.
var notYet = []string{"amqp", "mqtt", "nats"}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "godwit.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPrecedence sets every setting in every way: a flag wins over the environment, the environment over the file, the file
// over the default.
func TestPrecedence(t *testing.T) {
	defaults, r := serveWith(t)
	r.want(t, 0)
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			check := func(how string, want any, args ...string) {
				t.Helper()
				got, r := serveWith(t, args...)
				r.want(t, 0)
				if v := s.get(got); !reflect.DeepEqual(v, want) {
					t.Errorf("%s: %v, want %v", how, v, want)
				}
			}
			if v := s.get(defaults); reflect.DeepEqual(v, s.wantFile) || reflect.DeepEqual(v, s.wantEnv) || reflect.DeepEqual(v, s.wantFlag) {
				t.Errorf("the default, %v, is among the samples", v)
			}
			flag := "--" + s.name + "=" + s.flag
			config := "--config=" + writeConfig(t, s.name+": "+s.file+"\n")
			check("file", s.wantFile, config)
			check("flag over file", s.wantFlag, config, flag)
			t.Setenv("GODWIT_"+strings.ToUpper(strings.ReplaceAll(s.name, "-", "_")), s.env)
			check("environment", s.wantEnv)
			check("environment over file", s.wantEnv, config)
			check("flag over all", s.wantFlag, config, flag)
			t.Setenv("GODWIT_CONFIG", strings.TrimPrefix(config, "--config="))
			check("file from the environment", s.wantEnv)
		})
	}
}

// TestEverySettingIsKnown compares the flags of serve, its help and the samples.
func TestEverySettingIsKnown(t *testing.T) {
	parser, err := newParser(io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	help := runIn(t, "", "serve", "--help").out
	names := settingNames(parser)
	sampled := map[string]bool{}
	for _, s := range samples {
		sampled[s.name] = true
	}
	for _, name := range notYet {
		sampled[name] = true
	}
	if len(names) != len(sampled) || len(names) != reflect.TypeFor[settings.Settings]().NumField() {
		t.Errorf("%d flags, %d samples, %d fields", len(names), len(sampled), reflect.TypeFor[settings.Settings]().NumField())
	}
	for _, name := range names {
		env := "$GODWIT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if !strings.Contains(help, name) || !strings.Contains(help, env) {
			t.Errorf("%s or %s is not in the help", name, env)
		}
		if !sampled[name] {
			t.Errorf("%s has no sample", name)
		}
	}
}

func TestNotInThisRelease(t *testing.T) {
	for _, name := range notYet {
		_, r := serveWith(t, "--"+name, "127.0.0.1:5672")
		r.want(t, exitUsage, name, "this release has no such listener", "'off'")
		if help := runIn(t, "", "serve", "--help").out; !strings.Contains(strings.Join(strings.Fields(help), " "), "Not in this release: only 'off'") {
			t.Errorf("the help does not say so:\n%s", help)
		}
		_, r = serveWith(t, "--"+name, "off")
		r.want(t, 0)
	}
}

func TestServeRefuses(t *testing.T) {
	for _, tc := range []struct {
		config string
		args   []string
		want   []string
	}{
		{"wal-filesize: 1MiB", nil, []string{`"wal-filesize"`, `"wal-file-size"`, "godwit.yaml"}},
		{"config: x", nil, []string{`"config"`}},
		{"help: x", nil, []string{`"help"`}},
		{"wal-file-size: big", nil, []string{"wal-file-size", "not a size"}},
		{"num-partitions: many", nil, []string{"num-partitions"}},
		{"auto-create-topics: maybe", nil, []string{"auto-create-topics"}},
		{"durability: fast", nil, []string{"durability", "sync"}},
		{"topic-defaults: {retention.ms: x}", nil, []string{"topic-defaults", "retention.ms"}},
		{"topic-defaults: {no.such: x}", nil, []string{"no.such"}},
		{"data:", nil, []string{"data", "missing"}},
		{"[", nil, []string{"YAML"}},
		{"", []string{"--config=/no/such/file"}, []string{"/no/such/file"}},
		{"", []string{"--kafka", "9092"}, []string{"kafka", "HOST:PORT", "'off'"}},
		{"", []string{"--checkpoint-interval", "5"}, []string{"checkpoint-interval"}},
		{"", []string{"--max-inflight-bytes", "1MiB"}, []string{"max-inflight-bytes", "max-request-bytes"}},
		{"", []string{"--no-such"}, []string{"--no-such", "Try: godwit serve --help"}},
		{"", []string{"--log-level", "loud"}, []string{"log-level", "debug"}},
	} {
		args := tc.args
		if tc.config != "" {
			args = append(args, "--config="+writeConfig(t, tc.config))
		}
		s, r := serveWith(t, args...)
		if s != nil {
			t.Errorf("%q %q: the broker started", tc.config, tc.args)
		}
		r.want(t, exitUsage, tc.want...)
	}
}

func TestServeSaysWhereItListens(t *testing.T) {
	_, r := serveWith(t, "--log-format", "json")
	r.want(t, 0, `"msg":"listening"`, `"protocol":"http","address":"127.0.0.1:8"`, `"protocol":"kafka","address":"127.0.0.1:7"`, `"msg":"ready"`, `"version":"v1"`)
	_, r = serveWith(t, "--log-level", "error")
	if r.err != "" {
		t.Errorf("logged %q", r.err)
	}
}
