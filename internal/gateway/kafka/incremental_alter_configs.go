package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
	"godwit/internal/topicconf"
)

// IncrementalAlterConfigs (44), versions 0 and 1: changes single configurations of topics (KIP-339). Both versions are
// alike but for the encoding.
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
	st, err := rc.configuredTopic(s.backend.Meta(), r.ResourceName)
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
		if values[c.Name], err = s.changedConfig(st, c); err != nil {
			return err
		}
	}
	return s.backend.SetConfig(ctx, st.ID, values, false, validateOnly)
}

// changedConfig is the value that a configuration gets; nil to go back to the default.
func (s *Server) changedConfig(st *meta.Stream, c kmsg.IncrementalAlterConfigsRequestResourceConfig) (*string, error) {
	switch c.Op {
	case kmsg.IncrementalAlterConfigOpSet:
		return c.Value, nil
	case kmsg.IncrementalAlterConfigOpDelete:
		return nil, nil
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
	default:
		return nil, base.Errorf(base.CodeInvalidRequest, "Unknown operation %d for config %s", c.Op, c.Name)
	}
	def, ok := topicconf.Lookup(c.Name)
	if !ok {
		return nil, base.Errorf(base.CodeInvalidConfig, "Unknown topic config name: %s", c.Name)
	}
	if def.Type != topicconf.List {
		return nil, base.Errorf(base.CodeInvalidConfig, "Can't %v to key %s because its type is not LIST.", c.Op, c.Name)
	}
	list, change := topicconf.SplitList(s.topicValue(st, def).value), topicconf.SplitList(*c.Value)
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
