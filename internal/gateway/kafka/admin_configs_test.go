package kafka

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/topicconf"
)

func describe(st *stand, version int16, kind kmsg.ConfigResourceType, name string, names ...string) kmsg.DescribeConfigsResponseResource {
	st.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: names}}
	return send[*kmsg.DescribeConfigsResponse](st, version, req).Resources[0]
}

func TestDescribeTopicConfigs(t *testing.T) {
	st := newStand(t)
	st.topic("t", 1, map[string]string{"retention.ms": "5", "cleanup.policy": "compact"})
	if got, want := len(describe(st, 4, kmsg.ConfigResourceTypeTopic, "t").Configs), len(topicconf.Defs()); got != want {
		t.Errorf("%d configurations, want %d", got, want)
	}
	for version := int16(1); version <= 4; version++ {
		out := describe(st, version, kmsg.ConfigResourceTypeTopic, "t", "retention.ms", "max.message.bytes", "segment.bytes", "no.such").Configs
		if len(out) != 3 {
			t.Fatalf("version %d: told %+v", version, out)
		}
		for _, c := range out {
			want := map[string]struct {
				value   string
				source  kmsg.ConfigSource
				sources []kmsg.ConfigSource
				kind    kmsg.ConfigType
			}{
				"retention.ms":      {"5", kmsg.ConfigSourceDynamicTopicConfig, []kmsg.ConfigSource{1, 5}, kmsg.ConfigTypeLong},
				"max.message.bytes": {"2000000", kmsg.ConfigSourceStaticBrokerConfig, []kmsg.ConfigSource{4, 5}, kmsg.ConfigTypeInt},
				"segment.bytes":     {"1073741824", kmsg.ConfigSourceDefaultConfig, []kmsg.ConfigSource{5}, kmsg.ConfigTypeInt},
			}[c.Name]
			var sources []kmsg.ConfigSource
			for _, s := range c.ConfigSynonyms {
				sources = append(sources, s.Source)
			}
			if *c.Value != want.value || c.Source != want.source || !slices.Equal(sources, want.sources) || c.ReadOnly || c.IsSensitive {
				t.Errorf("version %d: %s is %s from %v, synonyms from %v", version, c.Name, *c.Value, c.Source, sources)
			}
			if version >= 3 && (c.ConfigType != want.kind || textOf(c.Documentation) == "") {
				t.Errorf("version %d: %s has type %v and documentation %q", version, c.Name, c.ConfigType, textOf(c.Documentation))
			}
		}
	}
	// What was not asked for is left out.
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}}
	for _, c := range send[*kmsg.DescribeConfigsResponse](st, 4, req).Resources[0].Configs {
		if c.ConfigSynonyms != nil || c.Documentation != nil {
			t.Fatalf("told %+v", c)
		}
	}
}

func TestDescribeOtherConfigs(t *testing.T) {
	st := newStand(t)
	st.topic("t", 1, nil)
	for _, tc := range []struct {
		kind kmsg.ConfigResourceType
		name string
		err  *kerr.Error
		n    int
	}{
		{kmsg.ConfigResourceTypeTopic, "none", kerr.UnknownTopicOrPartition, 0},
		{kmsg.ConfigResourceTypeTopic, "", kerr.InvalidRequest, 0},
		{kmsg.ConfigResourceTypeTopic, "a b", kerr.InvalidTopicException, 0},
		{kmsg.ConfigResourceTypeBroker, "7", nil, 3},
		{kmsg.ConfigResourceTypeBroker, "", nil, 0},
		{kmsg.ConfigResourceTypeBroker, "8", kerr.InvalidRequest, 0},
		{kmsg.ConfigResourceTypeBroker, "x", kerr.InvalidRequest, 0},
		{kmsg.ConfigResourceTypeBrokerLogger, "7", nil, 0},
		{kmsg.ConfigResourceTypeGroupConfig, "g", nil, 21},
		{kmsg.ConfigResourceTypeClientMetrics, "m", nil, 0},
		{99, "x", kerr.InvalidRequest, 0},
	} {
		out := describe(st, 4, tc.kind, tc.name)
		wantCode(t, tc.name, out.ErrorCode, tc.err)
		if len(out.Configs) != tc.n || out.ResourceName != tc.name || out.ResourceType != tc.kind {
			t.Errorf("%v %q: told %+v", tc.kind, tc.name, out)
		}
	}
	for _, c := range describe(st, 4, kmsg.ConfigResourceTypeBroker, "7").Configs {
		if !c.ReadOnly {
			t.Errorf("%s can be changed", c.Name)
		}
		if secret := c.Name == "ssl.keystore.password"; secret != (c.Value == nil) || secret != c.IsSensitive {
			t.Errorf("%s is %v", c.Name, c.Value)
		}
		if set := c.Name == "log.dirs"; set != (c.Source == kmsg.ConfigSourceStaticBrokerConfig) {
			t.Errorf("%s is from %v", c.Name, c.Source)
		}
	}
}

func TestAlterConfigs(t *testing.T) {
	for _, tc := range []struct {
		pairs []string // name, value; value "null" is null
		dry   bool
		err   *kerr.Error
		want  map[string]string
	}{
		{pairs: []string{"retention.bytes", "9"}, want: map[string]string{"retention.bytes": "9"}},
		{want: map[string]string{}},
		{pairs: []string{"retention.bytes", "9"}, dry: true},
		{pairs: []string{"retention.bytes", "x"}, err: kerr.InvalidConfig},
		{pairs: []string{"no.such", "1"}, err: kerr.InvalidConfig},
		{pairs: []string{"retention.bytes", "null"}, err: kerr.InvalidRequest},
		{pairs: []string{"retention.bytes", "1", "retention.bytes", "2"}, err: kerr.InvalidRequest},
	} {
		st := newStand(t)
		st.topic("t", 1, map[string]string{"retention.ms": "5"})
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
		for i := 0; i < len(tc.pairs); i += 2 {
			c := kmsg.AlterConfigsRequestResourceConfig{Name: tc.pairs[i], Value: &tc.pairs[i+1]}
			if *c.Value == "null" {
				c.Value = nil
			}
			r.Configs = append(r.Configs, c)
		}
		req := kmsg.NewPtrAlterConfigsRequest()
		req.Resources, req.ValidateOnly = []kmsg.AlterConfigsRequestResource{r}, tc.dry
		wantCode(t, strings.Join(tc.pairs, " "), send[*kmsg.AlterConfigsResponse](st, 2, req).Resources[0].ErrorCode, tc.err)
		st.wantOverrides(tc.want)
	}
}

// wantOverrides compares the topic t; nil: as it was made.
func (st *stand) wantOverrides(want map[string]string) {
	st.t.Helper()
	if want == nil {
		want = map[string]string{"retention.ms": "5"}
	}
	s, _ := st.n.Meta().Stream(base.DefaultNamespace, "t")
	if len(s.Overrides) != len(want) {
		st.t.Errorf("overrides are %v, want %v", s.Overrides, want)
	}
	for k, v := range want {
		if s.Overrides[k] != v {
			st.t.Errorf("overrides are %v, want %v", s.Overrides, want)
		}
	}
}

func TestIncrementalAlterConfigs(t *testing.T) {
	const (
		set = kmsg.IncrementalAlterConfigOpSet
		del = kmsg.IncrementalAlterConfigOpDelete
		app = kmsg.IncrementalAlterConfigOpAppend
		sub = kmsg.IncrementalAlterConfigOpSubtract
	)
	type change struct {
		name  string
		op    kmsg.IncrementalAlterConfigOp
		value string
	}
	for _, tc := range []struct {
		changes []change
		dry     bool
		err     *kerr.Error
		want    map[string]string
	}{
		{changes: []change{{"retention.bytes", set, "9"}}, want: map[string]string{"retention.ms": "5", "retention.bytes": "9"}},
		{changes: []change{{"retention.ms", del, "null"}}, want: map[string]string{}},
		{changes: []change{{"segment.ms", del, "null"}}},
		{changes: []change{{"cleanup.policy", app, "compact"}}, want: map[string]string{"retention.ms": "5", "cleanup.policy": "delete,compact"}},
		{changes: []change{{"cleanup.policy", app, "delete, compact"}}, want: map[string]string{"retention.ms": "5", "cleanup.policy": "delete,compact"}},
		{changes: []change{{"cleanup.policy", app, "delete"}}, want: map[string]string{"retention.ms": "5", "cleanup.policy": "delete"}},
		{changes: []change{{"leader.replication.throttled.replicas", app, "0:7"}, {"retention.ms", set, "6"}},
			want: map[string]string{"retention.ms": "6", "leader.replication.throttled.replicas": "0:7"}},
		{changes: []change{{"leader.replication.throttled.replicas", sub, "0:7"}}, want: map[string]string{"retention.ms": "5", "leader.replication.throttled.replicas": ""}},
		{changes: []change{{"retention.bytes", set, "9"}}, dry: true},
		{changes: []change{{"retention.bytes", set, "x"}}, err: kerr.InvalidConfig},
		{changes: []change{{"retention.bytes", set, "x"}}, dry: true, err: kerr.InvalidConfig},
		{changes: []change{{"no.such", set, "1"}}, err: kerr.InvalidConfig},
		{changes: []change{{"no.such", app, "1"}}, err: kerr.InvalidConfig},
		{changes: []change{{"retention.ms", app, "1"}}, err: kerr.InvalidConfig},
		{changes: []change{{"retention.ms", set, "null"}}, err: kerr.InvalidRequest},
		{changes: []change{{"cleanup.policy", sub, "null"}}, err: kerr.InvalidRequest},
		{changes: []change{{"retention.ms", 9, "1"}}, err: kerr.InvalidRequest},
		{changes: []change{{"retention.ms", set, "1"}, {"retention.ms", del, "null"}}, err: kerr.InvalidRequest},
	} {
		st := newStand(t)
		st.topic("t", 1, map[string]string{"retention.ms": "5"})
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
		for _, c := range tc.changes {
			in := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: c.name, Op: c.op, Value: &c.value}
			if c.value == "null" {
				in.Value = nil
			}
			r.Configs = append(r.Configs, in)
		}
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources, req.ValidateOnly = []kmsg.IncrementalAlterConfigsRequestResource{r}, tc.dry
		out := send[*kmsg.IncrementalAlterConfigsResponse](st, 1, req).Resources[0]
		wantCode(t, tc.changes[0].name, out.ErrorCode, tc.err)
		if tc.err != nil && textOf(out.ErrorMessage) == "" {
			t.Errorf("%+v: no message", tc.changes)
		}
		st.wantOverrides(tc.want)
	}
	// Taking away what counts by default.
	st := newStand(t)
	st.topic("t", 1, map[string]string{"cleanup.policy": "compact,delete"})
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "cleanup.policy", Op: sub, Value: kmsg.StringPtr("compact,none")}}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	wantCode(t, "subtract", send[*kmsg.IncrementalAlterConfigsResponse](st, 1, req).Resources[0].ErrorCode, nil)
	st.wantOverrides(map[string]string{"cleanup.policy": "delete"})
}

// TestAlterOtherResources checks what both requests refuse.
func TestAlterOtherResources(t *testing.T) {
	st := newStand(t)
	st.topic("t", 1, map[string]string{"retention.ms": "5"})
	inc, full := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewPtrAlterConfigsRequest()
	var want []*kerr.Error
	for _, tc := range []struct {
		kind kmsg.ConfigResourceType
		name string
		err  *kerr.Error
	}{
		{kmsg.ConfigResourceTypeTopic, "none", kerr.UnknownTopicOrPartition},
		{kmsg.ConfigResourceTypeTopic, "", kerr.InvalidRequest},
		{kmsg.ConfigResourceTypeBroker, "7", kerr.InvalidRequest},
		{kmsg.ConfigResourceTypeBroker, "", kerr.InvalidRequest},
		{kmsg.ConfigResourceTypeBroker, "8", kerr.InvalidRequest},
		{kmsg.ConfigResourceTypeBrokerLogger, "7", kerr.InvalidRequest},
		{kmsg.ConfigResourceTypeGroupConfig, "", kerr.InvalidRequest},
		{kmsg.ConfigResourceTypeClientMetrics, "m", kerr.InvalidRequest},
		{77, "x", kerr.InvalidRequest},
		{kmsg.ConfigResourceTypeTopic, "t", kerr.InvalidRequest},
		{kmsg.ConfigResourceTypeTopic, "t", kerr.InvalidRequest},
	} {
		i := kmsg.NewIncrementalAlterConfigsRequestResource()
		i.ResourceType, i.ResourceName = tc.kind, tc.name
		inc.Resources = append(inc.Resources, i)
		f := kmsg.NewAlterConfigsRequestResource()
		f.ResourceType, f.ResourceName = tc.kind, tc.name
		full.Resources = append(full.Resources, f)
		want = append(want, tc.err)
	}
	for i, r := range send[*kmsg.IncrementalAlterConfigsResponse](st, 1, inc).Resources {
		wantCode(t, "incremental "+r.ResourceName, r.ErrorCode, want[i])
	}
	for i, r := range send[*kmsg.AlterConfigsResponse](st, 2, full).Resources {
		wantCode(t, "full "+r.ResourceName, r.ErrorCode, want[i])
	}
	st.wantOverrides(nil)
}

func TestListConfigResources(t *testing.T) {
	st := newStand(t)
	st.topic("b", 1, nil)
	st.topic("a", 1, nil)
	list := func(version int16, types ...int8) []string {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		out := send[*kmsg.ListConfigResourcesResponse](st, version, req)
		if out.ErrorCode != 0 {
			return []string{kerr.ErrorForCode(out.ErrorCode).Error()}
		}
		var names []string
		for _, r := range out.ConfigResources {
			names = append(names, kmsg.ConfigResourceType(r.Type).String()+" "+r.Name)
		}
		return names
	}
	for _, tc := range []struct{ got, want []string }{
		{list(0), nil},
		{list(1), []string{"TOPIC a", "TOPIC b", "BROKER 7", "BROKER_LOGGER 7"}},
		{list(1, 2), []string{"TOPIC a", "TOPIC b"}},
		{list(1, 16, 4), []string{"BROKER 7"}},
		{list(1, 32), nil},
		{list(1, 2, 5), []string{kerr.UnsupportedVersion.Error()}},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("listed %q, want %q", tc.got, tc.want)
		}
	}
}
