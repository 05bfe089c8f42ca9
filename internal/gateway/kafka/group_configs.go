package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/groupconf"
)

// groupValue is what one configuration of a group is.
type groupValue struct {
	value string
	own   bool // set for the group
}

// groupValueOf finds the value that counts: the group's own, the broker's or the default.
func (s *Server) groupValueOf(def *groupconf.Def, own map[string]string) groupValue {
	if v, ok := own[def.Name]; ok {
		return groupValue{v, true}
	}
	if v, ok := s.opts.GroupDefaults[def.Name]; ok {
		return groupValue{v, false}
	}
	if def.Unset {
		return groupValue{def.Broker, false}
	}
	return groupValue{def.Default, false}
}

// groupConfigs lists the whole configuration of a group, in the order of the definitions; what is internal only where
// it is set.
func (s *Server) groupConfigs(rc *request, name string) (out []kmsg.DescribeConfigsResponseResourceConfig, err error) {
	if name == "" {
		return nil, base.Errorf(base.CodeInvalidRequest, "Group name must not be empty")
	}
	own := s.backend.GroupConfig(rc.groupKey(name))
	for _, def := range groupconf.Defs() {
		v := s.groupValueOf(&def, own)
		if def.Internal && !v.own {
			continue
		}
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value, c.Source = def.Name, &v.value, kmsg.ConfigSourceDefaultConfig
		c.ConfigType, c.Documentation, c.IsDefault = configType(def.Type), &def.Doc, !v.own
		if v.own {
			c.Source = kmsg.ConfigSourceGroupConfig
			c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(def.Name, v.value, c.Source))
		}
		broker := def.Synonym
		if broker == "" {
			broker = def.Name
		}
		c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(broker, s.groupValueOf(&def, nil).value, kmsg.ConfigSourceDefaultConfig))
		out = append(out, c)
	}
	return out, nil
}
