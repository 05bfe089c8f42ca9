package kafka

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/topicconf"
)

// DescribeConfigs (32), versions 1 to 4.
//
//   - 1: the source of a value, and what would count in its place
//   - 3: type and documentation
//
// A topic tells all configurations that Kafka knows, and so does a group, be there one of the name or not; the broker tells
// its own, which can only be read. Client metrics and loggers have none here.

// ConfigEntry is one setting of the broker as clients are shown it.
type ConfigEntry struct {
	Name      string
	Value     string
	Default   string
	Type      topicconf.Type // also SHORT, CLASS and PASSWORD
	Doc       string
	Set       bool // by the operator, even if to the default
	Sensitive bool // the value is not shown
}

func (s *Server) describeConfigs(_ context.Context, rc *request, req *kmsg.DescribeConfigsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for _, r := range req.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		configs, err := s.resourceConfigs(rc, r.ResourceType, r.ResourceName)
		if err != nil {
			out.ErrorCode, out.ErrorMessage = rc.failAdmin(err), message(err)
		}
		for _, c := range configs {
			// As in Kafka, an empty list of names asks for all.
			if len(r.ConfigNames) > 0 && !slices.Contains(r.ConfigNames, c.Name) {
				continue
			}
			if !req.IncludeSynonyms {
				c.ConfigSynonyms = nil
			}
			if !req.IncludeDocumentation {
				c.Documentation = nil
			}
			out.Configs = append(out.Configs, c)
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// resourceConfigs lists the configurations of a resource.
func (s *Server) resourceConfigs(rc *request, t kmsg.ConfigResourceType, name string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		st, err := rc.configuredTopic(s.backend.Meta(), name)
		if err != nil {
			return nil, err
		}
		var out []kmsg.DescribeConfigsResponseResourceConfig
		for _, v := range s.topicConfigs(st) {
			out = append(out, s.describedTopicConfig(v))
		}
		return out, nil
	case kmsg.ConfigResourceTypeBroker:
		return s.brokerConfigs(name)
	case kmsg.ConfigResourceTypeGroupConfig:
		return s.groupConfigs(rc, name)
	case kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics:
		return nil, nil
	}
	return nil, base.Errorf(base.CodeInvalidRequest, "Unsupported resource type: %d", t)
}

func (s *Server) describedTopicConfig(v topicValue) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.Source = v.def.Name, &v.value, v.source
	c.IsDefault = v.source != kmsg.ConfigSourceDynamicTopicConfig
	c.ConfigType, c.Documentation = configType(v.def.Type), &v.def.Doc
	if v.source == kmsg.ConfigSourceDynamicTopicConfig {
		c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(v.def.Name, v.value, v.source))
	}
	if len(v.def.Synonyms) == 0 {
		return c
	}
	// The strongest of the broker's settings has the topic's unit.
	name := v.def.Synonyms[0]
	if set, ok := s.opts.TopicDefaults[v.def.Name]; ok {
		c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(name, set, kmsg.ConfigSourceStaticBrokerConfig))
	}
	c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(name, v.def.Default, kmsg.ConfigSourceDefaultConfig))
	return c
}

func synonym(name, value string, source kmsg.ConfigSource) kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	return kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{Name: name, Value: &value, Source: source}
}

// brokerConfigs lists this broker's settings. The empty name stands for those that all brokers share and that could be
// changed while they run: there are none.
func (s *Server) brokerConfigs(name string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	if name == "" {
		return nil, nil
	}
	if err := s.checkBroker(name); err != nil {
		return nil, err
	}
	if s.opts.BrokerConfigs == nil {
		return nil, nil
	}
	var out []kmsg.DescribeConfigsResponseResourceConfig
	for _, e := range s.opts.BrokerConfigs() {
		out = append(out, describedBrokerConfig(e))
	}
	return out, nil
}

func describedBrokerConfig(e ConfigEntry) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.ReadOnly, c.IsSensitive = e.Name, true, e.Sensitive
	c.Source, c.IsDefault = kmsg.ConfigSourceDefaultConfig, !e.Set
	c.ConfigType, c.Documentation = configType(e.Type), &e.Doc
	shown := func(v string) *string {
		if e.Sensitive {
			return nil
		}
		return &v
	}
	c.Value = shown(e.Value)
	if e.Set {
		c.Source = kmsg.ConfigSourceStaticBrokerConfig
		c.ConfigSynonyms = append(c.ConfigSynonyms, kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{Name: e.Name, Value: shown(e.Value), Source: c.Source})
	}
	c.ConfigSynonyms = append(c.ConfigSynonyms, kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{Name: e.Name, Value: shown(e.Default), Source: kmsg.ConfigSourceDefaultConfig})
	return c
}

// checkBroker accepts this broker's ID as the name of a resource.
func (s *Server) checkBroker(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return base.Errorf(base.CodeInvalidRequest, "Broker id must be an integer, but it is: %s", name)
	}
	if int32(id) != s.backend.NodeID() {
		return base.Errorf(base.CodeInvalidRequest, "Unexpected broker id, expected %d or empty string, but received %s", s.backend.NodeID(), name)
	}
	return nil
}

// configType is the protocol's number of a type.
func configType(t topicconf.Type) kmsg.ConfigType {
	n, err := kmsg.ParseConfigType(string(t))
	if err != nil {
		return kmsg.ConfigTypeUnknown
	}
	return n
}
