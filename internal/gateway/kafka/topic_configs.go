package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
	"godwit/internal/topicconf"
)

// topicValue is what one configuration of a topic is, and where that comes from.
type topicValue struct {
	def    *topicconf.Def
	value  string
	source kmsg.ConfigSource
}

// topicConfigs lists the whole configuration of a topic, in the order of the definitions.
func (s *Server) topicConfigs(st *meta.Stream) []topicValue {
	defs := topicconf.Defs()
	out := make([]topicValue, len(defs))
	for i := range defs {
		out[i] = s.topicValue(st, &defs[i])
	}
	return out
}

// topicValue finds the value that counts: the topic's own, the broker's, or Kafka's.
func (s *Server) topicValue(st *meta.Stream, def *topicconf.Def) topicValue {
	if v, ok := st.Overrides[def.Name]; ok {
		return topicValue{def, v, kmsg.ConfigSourceDynamicTopicConfig}
	}
	if v, ok := s.opts.TopicDefaults[def.Name]; ok {
		return topicValue{def, v, kmsg.ConfigSourceStaticBrokerConfig}
	}
	return topicValue{def, def.Default, kmsg.ConfigSourceDefaultConfig}
}

// configuredTopic finds the topic whose configuration a request is about.
func (rc *request) configuredTopic(v *meta.View, name string) (*meta.Stream, error) {
	if name == "" {
		return nil, base.Errorf(base.CodeInvalidRequest, "Default topic resources are not allowed.")
	}
	if err := meta.ValidName(name); err != nil {
		return nil, err
	}
	st, ok := v.Stream(rc.namespace, name)
	if !ok {
		return nil, base.Errorf(base.CodeUnknownStream, "The topic '%s' does not exist.", name)
	}
	return st, nil
}
