// Package groupconf knows every group configuration of Kafka 4.4: type, default, range, documentation, and whether it has
// an effect here.
//
// A group configuration belongs to a group's name, be there a group of that name or not, and be it a consumer, share or
// streams group. Names, types, defaults, bounds and the words of errors are those of Kafka 4.4.0, asked of its own
// GroupConfig: testdata holds its table and its answers.
package groupconf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"godwit/internal/base"
	"godwit/internal/topicconf"
)

// Def describes one configuration.
type Def struct {
	Name      string
	Type      topicconf.Type
	Default   string
	Unset     bool // has no default; Broker counts then
	Broker    string
	Min, Max  int64    // of numbers, inclusive: what Kafka accepts at all
	Low, High int64    // of numbers, inclusive: what the broker lets groups have, as Bound says
	Bound     Bound    // which of Low and High count, if High or Low is set
	Allowed   []string // of strings; nil: anything
	Synonym   string   // broker setting from which the default comes; "": none
	Internal  bool     // not part of Kafka's documented interface; shown only where it is set
	Doc       string
	Effect    bool   // false: accepted, checked, stored and shown, but nothing here depends on it
	Note      string // what is particular about it here
}

// Bound says how the broker limits a configuration.
type Bound uint8

const (
	inRange  Bound = iota // Low to High
	highOnly              // at most High
	lowOnly               // at least Low
)

// The names that are checked or read one by one.
const (
	resetName    = "share.auto.offset.reset"
	assignorName = "streams.assignor.name"
	tagsName     = "streams.rack.aware.assignment.tags"
	deadLetters  = "errors.deadletterqueue.topic.name"
)

// assignors are the task assignors that a streams group can name.
var assignors = []string{"sticky"}

var byName = index()

func index() map[string]*Def {
	m := make(map[string]*Def, len(defs))
	for i := range defs {
		m[defs[i].Name] = &defs[i]
	}
	return m
}

// Defs lists all configurations, by name.
func Defs() []Def { return slices.Clone(defs) }

// Lookup finds a configuration by its name.
func Lookup(name string) (*Def, bool) {
	d, ok := byName[name]
	return d, ok
}

func invalid(format string, args ...any) error {
	return base.Errorf(base.CodeInvalidConfig, format, args...)
}

// Validate checks a group's explicit configuration as a whole: names, then each value, then what the broker lets
// groups have, then those that must fit together. The error is CodeInvalidConfig, worded as Kafka words it.
func Validate(values map[string]string) error {
	names := slices.Sorted(maps.Keys(values))
	for _, name := range names {
		if byName[name] == nil {
			return invalid("Unknown group config name: %s", name)
		}
	}
	if tags, ok := values[tagsName]; ok {
		if err := checkTags(tags); err != nil {
			return err
		}
	}
	for _, name := range names {
		d := byName[name]
		if shown, why := d.check(values[name]); why != "" {
			return invalid("Invalid value %s for configuration %s: %s", shown, name, why)
		}
	}
	for _, name := range names {
		if err := byName[name].checkBounds(values[name]); err != nil {
			return err
		}
	}
	if name, ok := values[assignorName]; ok && !slices.Contains(assignors, strings.TrimSpace(name)) {
		return invalid("%s '%s' is not a registered task assignor. Registered assignors are: [%s].", assignorName, name, strings.Join(assignors, ", "))
	}
	return fit(values)
}

func checkTags(v string) error {
	seen := map[string]bool{}
	for tag := range strings.SplitSeq(strings.TrimSpace(v), ",") {
		if tag = strings.TrimSpace(tag); seen[tag] {
			return invalid("%s must not contain duplicate tag keys.", tagsName)
		}
		seen[tag] = true
	}
	if len(seen) > 1 && seen[""] {
		return invalid("Configuration '%s' values must not be empty.", tagsName)
	}
	return nil
}

// check says what is wrong with a value, "" if nothing is, and what of the value to show.
func (d *Def) check(value string) (shown, why string) {
	v := strings.TrimSpace(value)
	if why := d.Type.Mismatch(v); why != "" {
		return value, why
	}
	switch d.Type {
	case topicconf.Int, topicconf.Long:
		if n, _ := strconv.ParseInt(v, 10, 64); n < d.Min {
			return strconv.FormatInt(n, 10), fmt.Sprintf("Value must be at least %d", d.Min)
		}
	case topicconf.String:
		if d.Allowed != nil && !slices.Contains(d.Allowed, v) {
			return v, "String must be one of: " + strings.Join(d.Allowed, ", ")
		}
		if d.Name == resetName {
			if _, ok := parseReset(v); !ok {
				return v, fmt.Sprintf("Invalid value `%s` for configuration %s. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.", v, resetName)
			}
		}
	}
	return v, ""
}

// checkBounds checks what the broker lets groups have.
func (d *Def) checkBounds(value string) error {
	if d.Low == 0 && d.High == 0 {
		return nil
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	switch {
	case d.Bound == inRange && (n < d.Low || n > d.High):
		return invalid("%s must be in the range %d to %d inclusive.", d.Name, d.Low, d.High)
	case d.Bound == highOnly && n > d.High:
		return invalid("%s must be less than or equal to %d", d.Name, d.High)
	case d.Bound == lowOnly && n < d.Low:
		return invalid("%s must be greater than or equal to %d", d.Name, d.Low)
	}
	return nil
}

// fit checks what must hold between values, which are valid by themselves.
func fit(values map[string]string) error {
	long := func(name string) (int64, bool) {
		v, ok := values[name]
		if !ok {
			v = byName[name].Default
		}
		n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		return n, ok
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		s, setS := long(session)
		h, setH := long(heartbeat)
		if (setS || setH) && s <= h {
			return invalid("%s must be greater than %s", session, heartbeat)
		}
	}
	if strings.HasPrefix(strings.TrimSpace(values[deadLetters]), "__") {
		return invalid("%s: DLQ topic name must not start with '__'", deadLetters)
	}
	return nil
}
