package groupconf

import (
	"math"
	"strconv"
	"strings"
)

// Reset says where a share group begins in a partition that it never read.
type Reset struct {
	Earliest bool
	ByTime   bool  // at the first record that is at most Back old
	Back     int64 // ms, with ByTime
}

// Modern are the settings that all groups with server-side assignment have (KIP-848, KIP-932, KIP-1071), in ms.
type Modern struct {
	Session            int64
	HeartbeatInterval  int64
	AssignmentInterval int64
}

// Share are the settings of a share group.
type Share struct {
	Modern
	LockDuration  int64 // ms
	DeliveryLimit int   // deliveries of a record
	MaxLocks      int   // records of a partition in flight
	Reset         Reset
	ReadCommitted bool
	Renew         bool   // locks may be renewed
	DeadLetters   string // topic; empty: none
	CopyRecords   bool   // to the dead-letter topic
}

// Streams are the settings of a streams group.
type Streams struct {
	Modern
	InitialDelay   int64 // ms
	Standbys       int
	Assignor       string // empty: the broker's first
	OffsetInterval int64  // ms between two reports of a member's changelogs
	RecoveryLag    int64  // records
	Tags           string // client tags over which standby tasks are to be spread, divided by commas
}

// ResolveConsumer works out a consumer group's settings: explicit ones before the broker's before the defaults. The maps,
// which hold valid values only, are by the names of group configurations.
func ResolveConsumer(values, defaults map[string]string) Modern {
	return lookup{values, defaults}.modern("consumer")
}

// ResolveShare works out a share group's settings, likewise.
func ResolveShare(values, defaults map[string]string) Share {
	l := lookup{values, defaults}
	s := Share{
		Modern:        l.modern("share"),
		LockDuration:  l.long("share.record.lock.duration.ms"),
		DeliveryLimit: int(l.long("share.delivery.count.limit")),
		MaxLocks:      int(l.long("share.partition.max.record.locks")),
		ReadCommitted: l.get("share.isolation.level") == "read_committed",
		Renew:         l.bool("share.renew.acknowledge.enable"),
		DeadLetters:   l.get(deadLetters),
		CopyRecords:   l.bool("errors.deadletterqueue.copy.record.enable"),
	}
	s.Reset, _ = parseReset(l.get(resetName))
	return s
}

// ResolveStreams works out a streams group's settings, likewise.
func ResolveStreams(values, defaults map[string]string) Streams {
	l := lookup{values, defaults}
	return Streams{
		Modern:         l.modern("streams"),
		InitialDelay:   l.long("streams.initial.rebalance.delay.ms"),
		Standbys:       int(l.long("streams.num.standby.replicas")),
		Assignor:       l.get(assignorName),
		OffsetInterval: l.long("streams.task.offset.interval.ms"),
		RecoveryLag:    l.long("streams.acceptable.recovery.lag"),
		Tags:           l.get(tagsName),
	}
}

// lookup finds values: in the first map that has one, or the default.
type lookup [2]map[string]string

func (l lookup) get(name string) string {
	for _, m := range l {
		if v, ok := m[name]; ok {
			return strings.TrimSpace(v)
		}
	}
	return byName[name].Default
}

func (l lookup) long(name string) int64 {
	n, _ := strconv.ParseInt(l.get(name), 10, 64)
	return n
}

func (l lookup) bool(name string) bool { return strings.EqualFold(l.get(name), "true") }

func (l lookup) modern(kind string) Modern {
	return Modern{
		Session:            l.long(kind + ".session.timeout.ms"),
		HeartbeatInterval:  l.long(kind + ".heartbeat.interval.ms"),
		AssignmentInterval: l.long(kind + ".assignment.interval.ms"),
	}
}

// parseReset reads a value of share.auto.offset.reset.
func parseReset(v string) (Reset, bool) {
	switch v {
	case "earliest":
		return Reset{Earliest: true}, true
	case "latest":
		return Reset{}, true
	}
	d, ok := strings.CutPrefix(v, "by_duration:")
	if !ok {
		return Reset{}, false
	}
	ms, ok := parseDuration(d)
	return Reset{ByTime: true, Back: ms}, ok
}

// parseDuration reads an ISO 8601 duration of days, hours, minutes and seconds that is not negative, as Java's Duration
// does: PnDTnHnMn.nS in either case, each part at most once and in this order, the whole and each part with an optional
// sign. The result is in ms, cut off.
func parseDuration(s string) (ms int64, ok bool) {
	s = strings.ToUpper(s)
	unsigned, minus := strings.CutPrefix(s, "-")
	if !minus {
		unsigned = strings.TrimPrefix(s, "+")
	}
	rest, ok := strings.CutPrefix(unsigned, "P")
	if !ok {
		return 0, false
	}
	total, parts := 0.0, 0
	date, clock, timed := strings.Cut(rest, "T")
	for _, section := range []struct {
		text  string
		units string
		size  []float64
	}{{date, "D", []float64{86_400_000}}, {clock, "HMS", []float64{3_600_000, 60_000, 1_000}}} {
		text, from := section.text, 0
		for text != "" {
			end := strings.IndexAny(text, section.units[from:])
			if end < 0 {
				return 0, false
			}
			unit := strings.IndexByte(section.units, text[end])
			n, valid := amount(text[:end], text[end] == 'S')
			if !valid {
				return 0, false
			}
			total += n * section.size[unit]
			text, from, parts = text[end+1:], unit+1, parts+1
		}
	}
	if minus {
		total = -total
	}
	if parts == 0 || timed && clock == "" || total < 0 || total > math.MaxInt64/2 {
		return 0, false
	}
	return int64(total), true
}

// amount reads one number of a duration: a sign, digits, and a fraction of at most nine digits where one is allowed.
func amount(s string, fraction bool) (float64, bool) {
	unsigned := strings.TrimLeft(s, "+-")
	whole, frac, dotted := strings.Cut(unsigned, ".")
	switch {
	case len(s)-len(unsigned) > 1, whole == "", strings.Trim(whole+frac, "0123456789") != "", dotted && !fraction, len(frac) > 9:
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}
