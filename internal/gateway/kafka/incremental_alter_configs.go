package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/groupconf"
	"godwit/internal/topicconf"
)

// IncrementalAlterConfigs (44), versions 0 and 1: changes single configurations of topics (KIP-339) and of groups (KIP-848,
// KIP-932). Both versions are alike but for the encoding.
//
// APPEND and SUBTRACT change lists, beginning from the value that counts, be it the topic's own or a default.

func (s *Server) incrementalAlterConfigs(ctx context.Context, rc *request, req *kmsg.IncrementalAlterConfigsRequest) (kmsg.Response, error) {
	repeated := repeatedResources(req.Resources, func(r kmsg.IncrementalAlterConfigsRequestResource) resource {
		return resource{r.ResourceType, r.ResourceName}
	})
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for _, r := range req.Resources {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		err := s.changeable(rc, resource{r.ResourceType, r.ResourceName}, repeated)
		if err == nil {
			err = s.changeConfigs(ctx, rc, &r, req.ValidateOnly)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = rc.failAdmin(err), message(err)
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

func (s *Server) changeConfigs(ctx context.Context, rc *request, r *kmsg.IncrementalAlterConfigsRequestResource, validateOnly bool) error {
	// A list is read before it is changed, so changes go one after the other.
	s.altering.Lock()
	defer s.altering.Unlock()
	current, set, err := s.configured(ctx, rc, r, validateOnly)
	if err != nil {
		return err
	}
	values := make(map[string]*string, len(r.Configs))
	var null []string
	for _, c := range r.Configs {
		if _, twice := values[c.Name]; twice {
			return errRepeatedKeys
		}
		values[c.Name] = nil
		if c.Value == nil && c.Op != kmsg.IncrementalAlterConfigOpDelete {
			null = append(null, c.Name)
		}
	}
	if len(null) > 0 {
		return nullValues(null)
	}
	for _, c := range r.Configs {
		if values[c.Name], err = changedConfig(c, current); err != nil {
			return err
		}
	}
	return set(values)
}

// listed is a configuration as far as a change of a list needs it.
type listed struct {
	kind  topicconf.Type
	value string
}

// configured finds what a request changes: how to look up configurations that there are, and how to set them.
func (s *Server) configured(ctx context.Context, rc *request, r *kmsg.IncrementalAlterConfigsRequestResource, validateOnly bool) (
	current func(name string) (listed, error), set func(map[string]*string) error, err error,
) {
	if r.ResourceType == kmsg.ConfigResourceTypeGroupConfig {
		k := rc.groupKey(r.ResourceName)
		current = func(name string) (listed, error) {
			def, ok := groupconf.Lookup(name)
			if !ok {
				return listed{}, base.Errorf(base.CodeInvalidConfig, "Unknown group config name: %s", name)
			}
			return listed{def.Type, s.groupValueOf(def, s.backend.GroupConfig(k)).value}, nil
		}
		return current, func(values map[string]*string) error {
			return s.backend.SetGroupConfig(ctx, k, values, false, validateOnly)
		}, nil
	}
	st, err := rc.configuredTopic(s.backend.Meta(), r.ResourceName)
	if err != nil {
		return nil, nil, err
	}
	current = func(name string) (listed, error) {
		def, ok := topicconf.Lookup(name)
		if !ok {
			return listed{}, base.Errorf(base.CodeInvalidConfig, "Unknown topic config name: %s", name)
		}
		return listed{def.Type, s.topicValue(st, def).value}, nil
	}
	return current, func(values map[string]*string) error {
		return s.backend.SetConfig(ctx, st.ID, values, false, validateOnly)
	}, nil
}

// changedConfig is the value that a configuration gets; nil to go back to the default.
func changedConfig(c kmsg.IncrementalAlterConfigsRequestResourceConfig, current func(name string) (listed, error)) (*string, error) {
	switch c.Op {
	case kmsg.IncrementalAlterConfigOpSet:
		return c.Value, nil
	case kmsg.IncrementalAlterConfigOpDelete:
		return nil, nil
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
	default:
		return nil, base.Errorf(base.CodeInvalidRequest, "Unknown operation %d for config %s", c.Op, c.Name)
	}
	now, err := current(c.Name)
	if err != nil {
		return nil, err
	}
	if now.kind != topicconf.List {
		return nil, base.Errorf(base.CodeInvalidConfig, "Can't %v to key %s because its type is not LIST.", c.Op, c.Name)
	}
	list, change := topicconf.SplitList(now.value), topicconf.SplitList(*c.Value)
	if c.Op == kmsg.IncrementalAlterConfigOpSubtract {
		list = slices.DeleteFunc(list, func(p string) bool { return slices.Contains(change, p) })
	} else {
		for _, p := range change {
			if !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	joined := strings.Join(list, ",")
	return &joined, nil
}
