// Package topicconf knows every topic configuration of Kafka 4.4: type, default, range, documentation, and whether it has an
// effect here.
package topicconf

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"godwit/internal/base"
	"godwit/internal/compress"
)

// Type is the type of a configuration value, by Kafka's names.
type Type string

// The types of topic configurations.
const (
	Boolean Type = "BOOLEAN"
	String  Type = "STRING"
	Int     Type = "INT"
	Long    Type = "LONG"
	Double  Type = "DOUBLE"
	List    Type = "LIST"
)

// Def describes one configuration.
type Def struct {
	Name     string
	Type     Type
	Default  string
	Min, Max float64  // of numbers, inclusive
	Allowed  []string // of strings and list elements; nil: anything
	Synonyms []string // broker settings from which Kafka takes the default, strongest first
	Doc      string
	Effect   bool   // false: accepted, checked, stored and shown, but nothing here depends on it
	Note     string // what is particular about it here
}

var byName = index()

func index() map[string]*Def {
	m := make(map[string]*Def, len(defs))
	for i := range defs {
		m[defs[i].Name] = &defs[i]
	}
	return m
}

// Defs lists all configurations by name.
func Defs() []Def { return slices.Clone(defs) }

// Lookup finds a configuration by its name.
func Lookup(name string) (*Def, bool) {
	d, ok := byName[name]
	return d, ok
}

// SplitList takes a list value apart: elements between commas, without the space around them.
func SplitList(v string) []string {
	var out []string
	for e := range strings.SplitSeq(v, ",") {
		if e = strings.TrimSpace(e); e != "" {
			out = append(out, e)
		}
	}
	return out
}

// Validate checks one value. The error is CodeInvalidConfig, worded as Kafka does.
func Validate(name, value string) error {
	d, ok := byName[name]
	if !ok {
		return base.Errorf(base.CodeInvalidConfig, "Unknown topic config name: %s", name)
	}
	if why := d.check(strings.TrimSpace(value)); why != "" {
		return base.Errorf(base.CodeInvalidConfig, "Invalid value %s for configuration %s: %s", value, name, why)
	}
	return nil
}

// check says what is wrong with a value; "" if nothing is.
func (d *Def) check(v string) string {
	switch d.Type {
	case Boolean:
		if l := strings.ToLower(v); l != "true" && l != "false" {
			return "Expected value to be either true or false"
		}
	case Int:
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil {
			return "Not a number of type INT"
		}
		return d.inRange(float64(n))
	case Long:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return "Not a number of type LONG"
		}
		return d.inRange(float64(n))
	case Double:
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(n) {
			return "Not a number of type DOUBLE"
		}
		return d.inRange(n)
	case String:
		if d.Allowed != nil && !slices.Contains(d.Allowed, v) {
			return "String must be one of: " + strings.Join(d.Allowed, ", ")
		}
	case List:
		return d.checkList(SplitList(v))
	}
	return ""
}

func (d *Def) checkList(elements []string) string {
	for i, e := range elements {
		if d.Allowed != nil && !slices.Contains(d.Allowed, e) {
			return "String must be one of: " + strings.Join(d.Allowed, ", ")
		}
		if slices.Contains(elements[:i], e) {
			return "Duplicate elements found: " + e
		}
		if d.Allowed == nil && e != "*" && !throttled(e) {
			return "Must be the literal '*' or a list of replicas in the form [partitionId]:[brokerId],..."
		}
	}
	return ""
}

// throttled reports whether an element reads partition:broker.
func throttled(e string) bool {
	a, b, ok := strings.Cut(e, ":")
	if !ok {
		return false
	}
	_, err1 := strconv.ParseUint(a, 10, 31)
	_, err2 := strconv.ParseUint(b, 10, 31)
	return err1 == nil && err2 == nil
}

func (d *Def) inRange(n float64) string {
	switch {
	case n < d.Min:
		return fmt.Sprintf("Value must be at least %s", number(d.Min))
	case n > d.Max:
		return fmt.Sprintf("Value must be no more than %s", number(d.Max))
	}
	return ""
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// ValidateAll checks a topic's explicit configuration as a whole: every value, and those that must fit together.
func ValidateAll(values map[string]string) error {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := Validate(name, values[name]); err != nil {
			return err
		}
	}
	return fit(Resolve(values, nil), values)
}

// fit checks what must hold between values.
func fit(r *Resolved, values map[string]string) error {
	invalid := func(format string, args ...any) error { return base.Errorf(base.CodeInvalidConfig, format, args...) }
	switch {
	case r.MinCompactionLagMs > r.MaxCompactionLagMs:
		return invalid("conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)", r.MinCompactionLagMs, r.MaxCompactionLagMs)
	case r.RetentionMs != -1 && (r.LocalRetentionMs == -1 || r.LocalRetentionMs > r.RetentionMs):
		return invalid("Invalid value %d for configuration local.retention.ms: Value must not be more than retention.ms property value: %d", r.LocalRetentionMs, r.RetentionMs)
	case r.RetentionBytes != -1 && (r.LocalRetentionBytes == -1 || r.LocalRetentionBytes > r.RetentionBytes):
		return invalid("Invalid value %d for configuration local.retention.bytes: Value must not be more than retention.bytes property value: %d", r.LocalRetentionBytes, r.RetentionBytes)
	case strings.EqualFold(strings.TrimSpace(values["remote.storage.enable"]), "true"):
		return invalid("Invalid value true for configuration remote.storage.enable: Tiered storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
	}
	return nil
}

// Resolved is a topic's configuration as values, explicit ones before the broker's before the defaults.
type Resolved struct {
	CleanupDelete, CleanupCompact         bool
	RetentionMs, RetentionBytes           int64 // -1: no limit
	LocalRetentionMs, LocalRetentionBytes int64 // -2: as retention
	SegmentMs                             int64
	MaxMessageBytes                       int
	LogAppendTime                         bool
	TimestampBeforeMaxMs                  int64
	TimestampAfterMaxMs                   int64
	KeepCompression                       bool           // compression.type=producer
	Codec                                 compress.Codec // otherwise
	CompressionLevel                      int
	DeleteRetentionMs                     int64
	MinCompactionLagMs                    int64
	MaxCompactionLagMs                    int64
	MinCleanableDirtyRatio                float64
	MinInsyncReplicas                     int
	MaxDecompressedBytes                  int
}

// Resolve works out the values. The maps hold valid values only.
func Resolve(overrides, defaults map[string]string) *Resolved {
	get := func(name string) string {
		for _, m := range []map[string]string{overrides, defaults} {
			if v, ok := m[name]; ok {
				return strings.TrimSpace(v)
			}
		}
		return byName[name].Default
	}
	long := func(name string) int64 {
		n, _ := strconv.ParseInt(get(name), 10, 64)
		return n
	}
	policy := SplitList(get("cleanup.policy"))
	ratio, _ := strconv.ParseFloat(get("min.cleanable.dirty.ratio"), 64)
	r := &Resolved{
		CleanupDelete:          slices.Contains(policy, "delete"),
		CleanupCompact:         slices.Contains(policy, "compact"),
		RetentionMs:            long("retention.ms"),
		RetentionBytes:         long("retention.bytes"),
		LocalRetentionMs:       long("local.retention.ms"),
		LocalRetentionBytes:    long("local.retention.bytes"),
		SegmentMs:              long("segment.ms"),
		MaxMessageBytes:        int(long("max.message.bytes")),
		LogAppendTime:          get("message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMaxMs:   long("message.timestamp.before.max.ms"),
		TimestampAfterMaxMs:    long("message.timestamp.after.max.ms"),
		DeleteRetentionMs:      long("delete.retention.ms"),
		MinCompactionLagMs:     long("min.compaction.lag.ms"),
		MaxCompactionLagMs:     long("max.compaction.lag.ms"),
		MinCleanableDirtyRatio: ratio,
		MinInsyncReplicas:      int(long("min.insync.replicas")),
		MaxDecompressedBytes:   int(long("max.decompressed.message.bytes")),
		CompressionLevel:       compress.DefaultLevel,
	}
	switch name := get("compression.type"); name {
	case "producer":
		r.KeepCompression = true
	case "uncompressed":
	default:
		r.Codec, _ = compress.Parse(name)
		if d := byName["compression."+name+".level"]; d != nil {
			r.CompressionLevel = int(long(d.Name))
		}
	}
	return r
}
