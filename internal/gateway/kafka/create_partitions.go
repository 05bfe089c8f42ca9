package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
)

// CreatePartitions (37), versions 0 to 3: brings topics to a larger number of partitions. All versions are alike but
// for the encoding.

func (s *Server) createPartitions(ctx context.Context, rc *request, req *kmsg.CreatePartitionsRequest) (kmsg.Response, error) {
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	topics, repeated := once(req.Topics, func(t kmsg.CreatePartitionsRequestTopic) string { return t.Topic })
	errs := make([]error, len(topics))
	parallel(len(topics), func(i int) {
		if repeated[topics[i].Topic] {
			errs[i] = errRepeated
			return
		}
		errs[i] = s.growTopic(ctx, rc, &topics[i], req.ValidateOnly)
	})
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	for i, t := range topics {
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = t.Topic
		if errs[i] != nil {
			out.ErrorCode, out.ErrorMessage = rc.failAdmin(errs[i]), message(errs[i])
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func (s *Server) growTopic(ctx context.Context, rc *request, t *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	st, ok := s.backend.Meta().Stream(rc.namespace, t.Topic)
	if !ok {
		return base.Errorf(base.CodeUnknownStream, "This server does not host this topic-partition.")
	}
	have := len(st.Partitions)
	switch {
	case int(t.Count) == have:
		return base.Errorf(base.CodeInvalidPartitions, "Topic already has %d partition(s).", have)
	case int(t.Count) < have:
		return base.Errorf(base.CodeInvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", t.Topic, have, t.Count)
	}
	if t.Assignment != nil {
		if more := int(t.Count) - have; len(t.Assignment) != more {
			return base.Errorf(base.CodeInvalidAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", more, len(t.Assignment))
		}
		for _, a := range t.Assignment {
			if err := s.checkReplicas(a.Replicas); err != nil {
				return err
			}
		}
	}
	return s.backend.AddPartitions(ctx, st.ID, int(t.Count), validateOnly)
}
