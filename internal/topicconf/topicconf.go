// Package topicconf knows every topic configuration of Kafka 4.4: type, default, range, documentation, and whether it has an
// effect here.
//
// Names, types, defaults, bounds and the words of errors are those of Kafka 4.4.0, asked of its own validator:
// testdata holds its table and its answers.
package topicconf

import (
	"fmt"
	"maps"
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
	Besides  string   // a number that is allowed outside Min to Max; "": none
	Allowed  []string // of strings and list elements; nil: anything
	Synonyms []string // broker settings from which Kafka takes the default, strongest first
	Doc      string
	Effect   bool   // false: accepted, checked, stored and shown, but nothing here depends on it
	Note     string // what is particular about it here
}

// internal lists what Kafka accepts but shows only where it is set.
var internal = []Def{
	{Name: "internal.segment.bytes", Type: Int, Min: minInt, Max: maxInt,
		Doc: "Size of a segment file below the lowest `segment.bytes`, for Kafka's own tests.", Note: noSegments},
}

var byName = index()

func index() map[string]*Def {
	m := make(map[string]*Def, len(defs)+len(internal))
	for _, list := range [][]Def{defs, internal} {
		for i := range list {
			m[list[i].Name] = &list[i]
		}
	}
	return m
}

// Defs lists all configurations that every topic shows, by name.
func Defs() []Def { return slices.Clone(defs) }

// Lookup finds a configuration by its name, internal ones included.
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

// invalid is the error of a value that does not do.
func invalid(format string, args ...any) error {
	return base.Errorf(base.CodeInvalidConfig, format, args...)
}

// Validate checks one value. The error is CodeInvalidConfig, worded as Kafka words it.
func Validate(name, value string) error {
	d, ok := byName[name]
	if !ok {
		return invalid("Unknown topic config name: %s", name)
	}
	shown, why := d.check(value)
	switch {
	case why == emptyElement:
		return invalid("Configuration '%s' values must not be empty.", name)
	case why != "":
		return invalid("Invalid value %s for configuration %s: %s", shown, name, why)
	}
	return nil
}

// emptyElement is the fault of a list that has nothing between two commas.
const emptyElement = "empty"

// Mismatch says why a value, without the space around it, is not of the type, in Kafka's words; "" if it is. Any text is a
// String and a List.
func (t Type) Mismatch(v string) string {
	var err error
	switch t {
	case Boolean:
		if l := strings.ToLower(v); l != "true" && l != "false" {
			return "Expected value to be either true or false"
		}
	case Int:
		_, err = strconv.ParseInt(v, 10, 32)
	case Long:
		_, err = strconv.ParseInt(v, 10, 64)
	case Double:
		n, bad := strconv.ParseFloat(v, 64)
		if err = bad; math.IsNaN(n) || strings.Contains(v, "_") { // Go's own notation has "_"
			err = strconv.ErrSyntax
		}
	}
	if err != nil {
		return "Not a number of type " + string(t)
	}
	return ""
}

// check says what is wrong with a value, "" if nothing is, and what of the value to show.
func (d *Def) check(value string) (shown, why string) {
	v := strings.TrimSpace(value)
	if why := d.Type.Mismatch(v); why != "" {
		return value, why
	}
	switch d.Type {
	case Int, Long:
		n, _ := strconv.ParseInt(v, 10, 64)
		if shown = strconv.FormatInt(n, 10); shown == d.Besides {
			return shown, ""
		}
		return shown, d.inRange(float64(n))
	case Double:
		n, _ := strconv.ParseFloat(v, 64)
		return v, d.inRange(n)
	case String:
		return v, d.oneOf(v)
	case List:
		if v != "" {
			return d.checkList(strings.Split(v, ","))
		}
	}
	return v, ""
}

func (d *Def) oneOf(v string) string {
	if d.Allowed == nil || slices.Contains(d.Allowed, v) {
		return ""
	}
	return "String must be one of: " + strings.Join(d.Allowed, ", ")
}

func (d *Def) checkList(elements []string) (shown, why string) {
	for i, e := range elements {
		elements[i] = strings.TrimSpace(e)
	}
	if d.Allowed == nil {
		return "[" + strings.Join(elements, ", ") + "]", d.checkReplicas(elements)
	}
	if slices.Contains(elements, "") {
		return "", emptyElement
	}
	for _, e := range elements { // an element that is there twice counts once
		if why := d.oneOf(e); why != "" {
			return e, why
		}
	}
	return "", ""
}

// checkReplicas wants all replicas, "*", or pairs of partition and broker.
func (d *Def) checkReplicas(elements []string) string {
	for _, e := range elements {
		partition, broker, ok := strings.Cut(e, ":")
		if e != "" && !(ok && digits(partition) && digits(broker)) && !(e == "*" && len(elements) == 1) {
			return d.Name + " must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
		}
	}
	return ""
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (d *Def) inRange(n float64) string {
	inside := n >= d.Min && n <= d.Max
	switch {
	case d.Besides != "" && !inside:
		return fmt.Sprintf("Value must be between %s and %s or equal to %s", number(d.Min), number(d.Max), d.Besides)
	case n < d.Min:
		return "Value must be at least " + number(d.Min)
	case n > d.Max:
		return "Value must be no more than " + number(d.Max)
	}
	return ""
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// ValidateAll checks a topic's explicit configuration as a whole: every value, and those that must fit together.
func ValidateAll(values map[string]string) error { return ValidateOver(values, nil) }

// ValidateOver is ValidateAll for a topic whose other values are the broker's defaults, which are valid. Unknown names are
// told before bad values, as Kafka does.
func ValidateOver(values, defaults map[string]string) error {
	names := slices.Sorted(maps.Keys(values))
	for _, name := range names {
		if byName[name] == nil {
			return Validate(name, "")
		}
	}
	for _, name := range names {
		if err := Validate(name, values[name]); err != nil {
			return err
		}
	}
	return fit(Resolve(values, defaults), values)
}

// fit checks what must hold between values. Kafka compares local.retention.* with retention.* only for topics with tiered
// storage, of which there are none.
func fit(r *Resolved, values map[string]string) error {
	switch {
	case r.MinCompactionLagMs > r.MaxCompactionLagMs:
		return invalid("conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)", r.MinCompactionLagMs, r.MaxCompactionLagMs)
	case strings.EqualFold(strings.TrimSpace(values["remote.storage.enable"]), "true"):
		return invalid("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
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
		RetentionBytes:         max(long("retention.bytes"), -1),
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
