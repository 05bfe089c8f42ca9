package lint

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// everything stands for all packages of the module.
const everything = "*"

// layers is the shape of the program: for every package, what it may import of the module. Imports
// point down. Names leave out "internal/"; a name that ends in "/" stands for all packages below it.
var layers = map[string][]string{
	"cmd/godwit": {"app"},
	"app":        {everything},
	"cli":        {"topicconf", "base", "clock", "settings", "bench/"},
	"settings":   {"topicconf", "groupconf", "base"},

	"gateway/kafka":  {"gateway/intake", "gateway/kafka/sharesession", "broker", "meta", "partlog", "queue", "coord/", "topicconf", "groupconf", "recordbatch", "compress", "base", "invariants", "clock"},
	"gateway/intake": {"base", "invariants"},

	"gateway/kafka/sharesession": {"coord/", "base"},
	"gateway/http":               {"broker", "meta", "topicconf", "base", "invariants", "clock"},

	"broker": {"engine", "shard", "partlog", "queue", "meta", "coord/", "topicconf", "groupconf", "recordbatch", "base", "invariants", "clock"},
	"engine": {
		"shard", "partlog", "queue", "meta", "coord/", "topicconf", "groupconf", "recordbatch",
		"journal", "journal/single", "storage/", "base", "invariants", "vfs", "clock",
	},

	// What decides: pure, see purity_test.go.
	"shard":         {"partlog", "queue", "meta", "coord/", "topicconf", "recordbatch", "varint", "base", "invariants"},
	"partlog":       {"topicconf", "recordbatch", "varint", "base", "invariants"},
	"queue":         {"varint", "base", "invariants"},
	"varint":        {},
	"meta":          {"topicconf", "base", "invariants"},
	"coord/group":   {"groupconf", "varint", "base", "invariants"},
	"coord/share":   {"groupconf", "varint", "base", "invariants"},
	"coord/streams": {"groupconf", "varint", "base", "invariants"},
	"coord/txn":     {"varint", "base", "invariants"},
	"groupconf":     {"topicconf", "base", "invariants"},
	"topicconf":     {"compress", "base", "invariants"},
	"recordbatch":   {"compress", "base", "invariants"},
	"compress":      {"base", "invariants"},

	// What acts: knows no broker semantics.
	"journal":         {"storage/wal", "storage/segment", "base", "invariants"},
	"journal/single":  {"journal", "storage/wal", "storage/segment", "base", "invariants", "vfs", "clock"},
	"storage/wal":     {"storage/segment", "recordbatch", "base", "invariants", "vfs", "clock"},
	"storage/segment": {"recordbatch", "base", "invariants", "vfs"},
	"storage/compact": {"storage/segment", "recordbatch", "compress", "base", "invariants", "vfs", "clock"},
	"storage/state":   {"base", "invariants", "vfs"},

	// The benchmark: knows brokers only by their protocols, this one included.
	"bench/run":               {"bench/", "base"},
	"bench/report":            {"bench/result"},
	"bench/scenario":          {"bench/result"},
	"bench/target":            {"bench/driver"},
	"bench/load":              {"bench/driver", "bench/result"},
	"bench/driver":            {},
	"bench/driver/kafka":      {"bench/driver"},
	"bench/driver/amqp":       {"bench/driver"},
	"bench/driver/mqtt":       {"bench/driver"},
	"bench/driver/nats":       {"bench/driver"},
	"bench/driver/drivertest": {"bench/driver"},
	"bench/probe":             {"bench/result"},
	"bench/result":            {},

	"base":       {},
	"invariants": {},
	"vfs":        {"base", "invariants"},
	"clock":      {},

	// Not part of the program.
	"lint":      {},
	"golden":    {},
	"crashtest": {everything},
	"difftest":  {},
	"killtest":  {},
}

// outsiders lists the modules the program is built on and the packages that may import each. A
// gateway's codec stays in the gateway, the state store in storage/state.
var outsiders = map[string][]string{
	"github.com/twmb/franz-go/pkg/kmsg":       {"gateway/kafka", "cli", "bench/driver/kafka"},
	"github.com/twmb/franz-go/pkg/kerr":       {"gateway/kafka", "cli", "bench/driver/kafka"},
	"github.com/twmb/franz-go/pkg/kbin":       {"gateway/kafka"},
	"github.com/twmb/franz-go/pkg/kversion":   {"gateway/kafka", "cli"},
	"github.com/twmb/franz-go/pkg/kgo":        {"cli", "bench/driver/kafka", "crashtest", "killtest"},
	"github.com/twmb/franz-go/pkg/kadm":       {"cli", "bench/driver/kafka", "crashtest", "killtest"},
	"github.com/klauspost/compress":           {"compress"},
	"github.com/pierrec/lz4/v4":               {"compress"},
	"github.com/cockroachdb/pebble/v2":        {"storage/state", "vfs"},
	"github.com/prometheus/client_golang":     {"app", "engine", "broker", "gateway/kafka", "gateway/http"},
	"github.com/alecthomas/kong":              {"app", "cli"},
	"go.yaml.in/yaml/v3":                      {"settings", "bench/scenario"},
	"github.com/vbauerster/mpb/v8":            {"app", "cli"},
	"golang.org/x/sys":                        {"vfs", "bench/load", "bench/probe"},
	"github.com/prometheus/client_model":      {"app", "gateway/http"},
	"github.com/prometheus/common":            {"app", "gateway/http"},
	"github.com/HdrHistogram/hdrhistogram-go": {"cli", "bench/load"},
	"github.com/rabbitmq/amqp091-go":          {"bench/driver/amqp"},
	"github.com/eclipse/paho.golang":          {"bench/driver/mqtt"},
	"github.com/nats-io/nats.go":              {"bench/driver/nats"},
}

// badNames are names that say nothing about what is inside.
var badNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "shared", "lib"}

func TestLayers(t *testing.T)       { report(t, checkLayers(repository(t))) }
func TestOutsiders(t *testing.T)    { report(t, checkOutsiders(repository(t))) }
func TestPackageNames(t *testing.T) { report(t, checkNames(repository(t))) }

// inProgram says whether the package belongs to the program: bench and interop do not.
func inProgram(p *pkg) bool {
	return strings.HasPrefix(p.dir, "internal/") || strings.HasPrefix(p.dir, "cmd/")
}

func allowed(list []string, name string) bool {
	return slices.ContainsFunc(list, func(a string) bool {
		return a == everything || a == name || strings.HasSuffix(a, "/") && strings.HasPrefix(name, a)
	})
}

// checkLayers holds the imports between packages of the module against the table.
func checkLayers(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		if !inProgram(p) {
			continue
		}
		may, known := layers[p.short()]
		if !known {
			findings = append(findings, fmt.Sprintf(
				"%s: not in the table of layers: give it a row in internal/lint/layers_test.go with what it may import (imports point down; see docs/architecture.md)", p.dir))
			continue
		}
		for _, s := range p.code() {
			for _, spec := range s.file.Imports {
				target, _ := strconv.Unquote(spec.Path.Value)
				name, ours := strings.CutPrefix(target, module+"/")
				if name = strings.TrimPrefix(name, "internal/"); ours && !allowed(may, name) {
					findings = append(findings, fmt.Sprintf("%s: %s must not import %s: %s", t.at(spec), p.short(), name, instead(p.short(), name)))
				}
			}
		}
	}
	return findings
}

// instead says what to do about an import that the table does not allow.
func instead(from, to string) string {
	gateway := func(s string) bool { return strings.HasPrefix(s, "gateway/") }
	acts := func(s string) bool {
		return strings.HasPrefix(s, "storage/") || strings.HasPrefix(s, "journal") || s == "vfs" || s == "clock"
	}
	switch {
	case gateway(from) && gateway(to):
		return "gateways do not know each other; put what both need into broker"
	case gateway(from) && (acts(to) || to == "engine" || to == "shard"):
		return "a gateway calls broker and nothing below it; declare the interface it needs and let app pass it in"
	case to == "app":
		return "only cmd/godwit imports app; pass what is needed in as a field of Options"
	case slices.Contains(pure, from) && acts(to):
		return "what decides cannot touch the world; return an effect and let engine carry it out"
	case acts(from) && slices.Contains(pure, to):
		return "storage knows no broker semantics; take the plain value (a size, a time, a function) as an argument"
	}
	return fmt.Sprintf("it may import [%s]; move the code to the layer that may, or declare an interface here", strings.Join(layers[from], " "))
}

// checkOutsiders holds the imports of other modules against the table.
func checkOutsiders(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		if !inProgram(p) {
			continue
		}
		for _, s := range p.code() {
			for _, spec := range s.file.Imports {
				target, _ := strconv.Unquote(spec.Path.Value)
				first, _, _ := strings.Cut(target, "/")
				if !strings.Contains(first, ".") {
					continue // the module's own, or the standard library
				}
				may, known := outsider(target)
				switch {
				case !known:
					findings = append(findings, fmt.Sprintf("%s: %s is not among the modules the program is built on: use one that is, or add it to outsiders in internal/lint/layers_test.go with the packages that need it", t.at(spec), target))
				case !allowed(may, p.short()):
					findings = append(findings, fmt.Sprintf("%s: %s is for %s: call that package instead", t.at(spec), target, strings.Join(may, ", ")))
				}
			}
		}
	}
	return findings
}

// outsider finds the row of the longest module path that target lies in.
func outsider(target string) (may []string, known bool) {
	for p := target; p != "." && p != "/"; p = path.Dir(p) {
		if may, known = outsiders[p]; known {
			return may, true
		}
	}
	return nil, false
}

func checkNames(t *tree) (findings []string) {
	for _, p := range t.pkgs {
		if slices.Contains(badNames, p.name) || slices.Contains(badNames, path.Base(p.dir)) {
			findings = append(findings, fmt.Sprintf("%s: the name says nothing: name the package after what it holds, or move each function to where it is used", p.dir))
		}
	}
	return findings
}
