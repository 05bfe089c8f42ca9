package kafka

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
)

// AlterConfigs (33), versions 0 to 2: replaces the whole configuration of topics and groups: what is not named goes back
// to its default. All versions are alike but for the encoding. IncrementalAlterConfigs is what clients should
// use.

func (s *Server) alterConfigs(ctx context.Context, rc *request, req *kmsg.AlterConfigsRequest) (kmsg.Response, error) {
	repeated := repeatedResources(req.Resources, func(r kmsg.AlterConfigsRequestResource) resource { return resource{r.ResourceType, r.ResourceName} })
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	for _, r := range req.Resources {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		err := s.changeable(rc, resource{r.ResourceType, r.ResourceName}, repeated)
		if err == nil {
			err = s.replaceConfigs(ctx, rc, &r, req.ValidateOnly)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = rc.failAdmin(err), message(err)
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

func (s *Server) replaceConfigs(ctx context.Context, rc *request, r *kmsg.AlterConfigsRequestResource, validateOnly bool) error {
	values := make(map[string]*string, len(r.Configs))
	var null []string
	for _, c := range r.Configs {
		if _, twice := values[c.Name]; twice {
			return errRepeatedKeys
		}
		values[c.Name] = c.Value
		if c.Value == nil {
			null = append(null, c.Name)
		}
	}
	set := func() error {
		return s.backend.SetGroupConfig(ctx, rc.groupKey(r.ResourceName), values, true, validateOnly)
	}
	if r.ResourceType == kmsg.ConfigResourceTypeTopic {
		st, err := rc.configuredTopic(s.backend.Meta(), r.ResourceName)
		if err != nil {
			return err
		}
		set = func() error { return s.backend.SetConfig(ctx, st.ID, values, true, validateOnly) }
	}
	if len(null) > 0 {
		return nullValues(null)
	}
	return set()
}

// resource names what a configuration belongs to.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// repeatedResources finds what a request names more than once.
func repeatedResources[T any](list []T, of func(T) resource) map[resource]bool {
	seen, repeated := map[resource]bool{}, map[resource]bool{}
	for _, t := range list {
		r := of(t)
		if seen[r] {
			repeated[r] = true
		}
		seen[r] = true
	}
	return repeated
}

// changeable checks that a resource has a configuration that can be changed: topics have, and groups by their names.
func (s *Server) changeable(rc *request, r resource, repeated map[resource]bool) error {
	if repeated[r] {
		return base.Errorf(base.CodeInvalidRequest, "Each resource must appear at most once.")
	}
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		return nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if r.name == "" {
			return base.Errorf(base.CodeInvalidRequest, "Default group resources are not allowed.")
		}
		return nil
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		if r.name != "" {
			if err := s.checkBroker(r.name); err != nil {
				return err
			}
		}
		return base.Errorf(base.CodeInvalidRequest, "The broker's configuration cannot be changed while it runs: change its settings and start it again.")
	case kmsg.ConfigResourceTypeClientMetrics:
		return base.Errorf(base.CodeInvalidRequest, "This broker has no configuration for resources of type %v.", r.kind)
	}
	return base.Errorf(base.CodeInvalidRequest, "Unsupported resource type: %d", r.kind)
}

// errRepeatedKeys is the fault of a configuration that a request has more than once.
var errRepeatedKeys = base.Errorf(base.CodeInvalidRequest, "Error due to duplicate config keys")

func nullValues(names []string) error {
	return base.Errorf(base.CodeInvalidRequest, "Null value not supported for : %s", strings.Join(names, ", "))
}
