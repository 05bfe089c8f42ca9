package groupconf

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"godwit/internal/topicconf"
)

// migrationPolicies are the values of group.consumer.migration.policy.
var migrationPolicies = []string{"bidirectional", "disabled", "downgrade", "upgrade"}

// The names that are read one by one.
const (
	consumerAssignors = "group.consumer.assignors"
	deadLetterPrefix  = "errors.deadletterqueue.topic.name.prefix"
)

// brokerDefs are the broker's settings of groups that are no defaults of a group's configuration; ordered by name.
var brokerDefs = []Def{
	{Name: deadLetterPrefix, Type: topicconf.String, Default: "dlq.", Effect: true,
		Doc: "How the names of dead-letter topics of share groups have to begin; empty for any name (KIP-1191)."},
	{Name: consumerAssignors, Type: topicconf.List, Default: "uniform,range", Effect: true,
		Doc: "Assignors that consumer groups may use; the first is for those that do not say."},
	{Name: "group.consumer.max.size", Type: topicconf.Int, Default: "2147483647", Min: 1, Max: maxInt, Effect: true,
		Doc: "Members of a consumer group at most."},
	{Name: "group.consumer.migration.policy", Type: topicconf.String, Default: "bidirectional", Allowed: migrationPolicies, Effect: true,
		Doc: "Which groups with members change between the classic and the consumer protocol: `upgrade` to the consumer protocol, `downgrade` to the classic one, `bidirectional` or `disabled`."},
	{Name: "group.initial.rebalance.delay.ms", Type: topicconf.Int, Default: "3000", Max: maxInt, Effect: true,
		Doc: "Milliseconds for which a new classic group waits for more members."},
	{Name: "group.max.session.timeout.ms", Type: topicconf.Int, Default: "1800000", Min: 1, Max: maxInt, Effect: true,
		Doc: "Longest session time-out that a member of a classic group may ask for."},
	{Name: "group.max.size", Type: topicconf.Int, Default: "2147483647", Min: 1, Max: maxInt, Effect: true,
		Doc: "Members of a classic group at most."},
	{Name: "group.min.session.timeout.ms", Type: topicconf.Int, Default: "6000", Min: 1, Max: maxInt, Effect: true,
		Doc: "Shortest session time-out that a member of a classic group may ask for."},
	{Name: "group.share.max.size", Type: topicconf.Int, Default: "200", Min: 1, Max: 1_000, Effect: true,
		Doc: "Members of a share group at most."},
	{Name: "group.streams.max.size", Type: topicconf.Int, Default: "2147483647", Min: 1, Max: maxInt, Effect: true,
		Doc: "Members of a streams group at most."},
	{Name: "offset.metadata.max.bytes", Type: topicconf.Int, Default: "4096", Max: maxInt, Effect: true,
		Doc: "Size of the text that a client may add to a committed offset."},
	{Name: "offsets.retention.minutes", Type: topicconf.Int, Default: "10080", Min: 1, Max: maxInt, Effect: true,
		Doc: "Minutes for which committed offsets of a group without members are kept."},
}

// Broker are the broker's settings of groups.
type Broker struct {
	MinSession, MaxSession int64 // ms, of classic groups
	InitialDelay           int64 // ms, of classic groups
	MaxSize                int   // members of a classic group
	MaxMetadata            int   // bytes beside an offset
	Retention              int64 // ms that offsets of a group without members are kept

	ConsumerMaxSize int
	Migration       string
	Assignors       []string // of consumer groups
	ShareMaxSize    int
	StreamsMaxSize  int

	DeadLetterPrefix string // of topics

	Defaults map[string]string // of groups' configurations, by their names
}

// BrokerDefs lists the broker's settings of groups by their names: those from which groups' configurations take their defaults, and those that
// no group can set for itself.
func BrokerDefs() []Def {
	out := slices.Clone(brokerDefs)
	for _, d := range defs {
		if d.Synonym == "" || d.Unset {
			continue
		}
		d.Name, d.Synonym = d.Synonym, ""
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Def) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// ResolveBroker checks the broker's settings of groups and works them out. What groups may set for themselves is not bounded here as
// it is for them.
func ResolveBroker(values map[string]string) (Broker, error) {
	all := map[string]string{}
	known := BrokerDefs()
	for i := range known {
		d := &known[i]
		v, ok := values[d.Name]
		if !ok {
			v = d.Default
		}
		if shown, why := d.check(v); why != "" {
			return Broker{}, invalid("Invalid value %s for configuration %s: %s", shown, d.Name, why)
		}
		all[d.Name] = strings.TrimSpace(v)
		if n, err := strconv.ParseInt(all[d.Name], 10, 64); err == nil && n > d.Max {
			return Broker{}, invalid("Invalid value %d for configuration %s: Value must be no more than %d", n, d.Name, d.Max)
		}
	}
	for name := range values {
		if _, ok := all[name]; !ok {
			return Broker{}, invalid("there is no setting of groups %q; operations.md lists them", name)
		}
	}
	n := func(name string) int64 {
		out, _ := strconv.ParseInt(all[name], 10, 64)
		return out
	}
	b := Broker{
		MinSession: n("group.min.session.timeout.ms"), MaxSession: n("group.max.session.timeout.ms"),
		InitialDelay: n("group.initial.rebalance.delay.ms"), MaxSize: int(n("group.max.size")),
		MaxMetadata: int(n("offset.metadata.max.bytes")), Retention: n("offsets.retention.minutes") * 60_000,
		ConsumerMaxSize: int(n("group.consumer.max.size")), Migration: all["group.consumer.migration.policy"],
		ShareMaxSize: int(n("group.share.max.size")), StreamsMaxSize: int(n("group.streams.max.size")), Defaults: map[string]string{},
		DeadLetterPrefix: all[deadLetterPrefix],
	}
	for _, d := range defs {
		if v, ok := values[d.Synonym]; ok {
			b.Defaults[d.Name] = strings.TrimSpace(v)
		}
	}
	err := b.fit(all[consumerAssignors])
	return b, err
}

// fit checks what must hold between settings, which are valid by themselves.
func (b *Broker) fit(assignors string) error {
	if b.MinSession > b.MaxSession {
		return invalid("group.min.session.timeout.ms is %d, above group.max.session.timeout.ms, which is %d", b.MinSession, b.MaxSession)
	}
	if b.Retention > math.MaxInt64/2 {
		return invalid("offsets.retention.minutes is too large")
	}
	for _, a := range topicconf.SplitList(assignors) {
		if a != "uniform" && a != "range" {
			return invalid("%s: there is no assignor %q; there are uniform and range", consumerAssignors, a)
		}
		if slices.Contains(b.Assignors, a) {
			return invalid("%s names %s twice", consumerAssignors, a)
		}
		b.Assignors = append(b.Assignors, a)
	}
	if len(b.Assignors) == 0 {
		return invalid("%s is empty; it takes uniform and range", consumerAssignors)
	}
	return fit(b.Defaults)
}
