package groupconf

import (
	"reflect"
	"strings"
	"testing"
)

func TestBrokerDefaults(t *testing.T) {
	b, err := ResolveBroker(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Broker{
		MinSession: 6_000, MaxSession: 1_800_000, InitialDelay: 3_000, MaxSize: maxInt, MaxMetadata: 4_096, Retention: 7 * 24 * 3_600_000,
		ConsumerMaxSize: maxInt, Migration: "bidirectional", Assignors: []string{"uniform", "range"}, ShareMaxSize: 200, StreamsMaxSize: maxInt, DeadLetterPrefix: "dlq.", Defaults: map[string]string{},
	}
	if !reflect.DeepEqual(b, want) {
		t.Errorf("got\n%+v\nwant\n%+v", b, want)
	}
}

func TestBrokerSettings(t *testing.T) {
	b, err := ResolveBroker(map[string]string{
		"group.consumer.session.timeout.ms": " 9000 ", "group.share.heartbeat.interval.ms": "100", "group.consumer.assignors": "range",
		"offsets.retention.minutes": "2", "group.consumer.migration.policy": "disabled", "group.consumer.max.size": "3", "errors.deadletterqueue.topic.name.prefix": "",
	})
	if err != nil {
		t.Fatal(err)
	}
	if b.Retention != 120_000 || b.Migration != "disabled" || b.ConsumerMaxSize != 3 || b.DeadLetterPrefix != "" || !reflect.DeepEqual(b.Assignors, []string{"range"}) {
		t.Errorf("got %+v", b)
	}
	if got := ResolveConsumer(nil, b.Defaults); got != (Modern{9_000, 5_000, 1_000}) {
		t.Errorf("a consumer group has %+v", got)
	}
	if got := ResolveConsumer(map[string]string{"consumer.session.timeout.ms": "50000"}, b.Defaults); got.Session != 50_000 {
		t.Errorf("a consumer group with a configuration of its own has %+v", got)
	}
	if got := ResolveShare(nil, b.Defaults); got.HeartbeatInterval != 100 {
		t.Errorf("a share group has %+v", got.Modern)
	}
}

func TestBrokerRefusals(t *testing.T) {
	for setting, want := range map[string]string{
		"group.consumer.max.size=0":                "at least 1",
		"group.share.max.size=1001":                "no more than 1000",
		"group.max.size=x":                         "Not a number",
		"group.consumer.migration.policy=sideways": "one of",
		"group.consumer.assignors=sticky":          "uniform and range",
		"group.consumer.assignors=range,range":     "twice",
		"group.consumer.assignors=,":               "empty",
		"group.min.session.timeout.ms=1800001":     "group.max.session.timeout.ms",
		"group.consumer.session.timeout.ms=5000":   "greater than consumer.heartbeat.interval.ms",
		"group.no.such=1":                          "group.no.such",
		"=1":                                       "no setting",
	} {
		name, v, _ := strings.Cut(setting, "=")
		if _, err := ResolveBroker(map[string]string{name: v}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", setting, err, want)
		}
	}
}

func TestBrokerDefsAreSound(t *testing.T) {
	all := BrokerDefs()
	for i, d := range all {
		if i > 0 && all[i-1].Name >= d.Name {
			t.Errorf("%s is out of order, or there twice", d.Name)
		}
		if d.Doc == "" || d.Name == "" || d.Unset {
			t.Errorf("%q is incomplete", d.Name)
		}
		if _, why := d.check(d.Default); why != "" {
			t.Errorf("%s: the default does not do: %s", d.Name, why)
		}
	}
}
