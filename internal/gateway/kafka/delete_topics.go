package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
)

// DeleteTopics (20), versions 1 to 6.
//
//   - 5: error messages
//   - 6: topics by ID, or by name (KIP-516)

// doomed is one topic of the request with what becomes of it.
type doomed struct {
	name *string // as asked for, or as found
	id   base.StreamID
	err  error
	code *kerr.Error // in place of what err means
}

func (s *Server) deleteTopics(ctx context.Context, rc *request, req *kmsg.DeleteTopicsRequest) (kmsg.Response, error) {
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	topics := req.Topics
	for i := range req.TopicNames {
		topics = append(topics, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
	}
	list := rc.resolveDoomed(s.backend.Meta(), topics)
	parallel(len(list), func(i int) {
		if d := &list[i]; d.err == nil {
			d.err = s.backend.DeleteStream(ctx, d.id)
		}
	})
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	for _, d := range list {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = d.name, d.id
		if d.err != nil {
			out.ErrorMessage = message(d.err)
			if d.code != nil {
				out.ErrorCode = rc.reject(d.code)
			} else {
				out.ErrorCode = rc.failAdmin(d.err)
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// resolveDoomed finds the topics of a request. One that is named twice, also once by name and once by ID, is not
// deleted: the client may not mean it.
func (rc *request) resolveDoomed(v *meta.View, topics []kmsg.DeleteTopicsRequestTopic) []doomed {
	times := map[base.StreamID]int{}
	asked := map[string]int{} // unknown names
	list := make([]doomed, 0, len(topics))
	for _, t := range topics {
		d := doomed{name: t.Topic, id: t.TopicID}
		switch byID := !d.id.IsZero(); {
		case byID && t.Topic != nil:
			d.err = base.Errorf(base.CodeInvalidRequest, "You may not specify both topic name and topic id.")
		case !byID && t.Topic == nil:
			d.err = base.Errorf(base.CodeInvalidRequest, "Neither topic name nor id were specified.")
		case byID:
			if st, err := rc.streamByID(v, d.id); err != nil {
				d.err, d.code = err, kerr.UnknownTopicID
			} else {
				d.name = &st.Name
				times[d.id]++
			}
		default:
			asked[*t.Topic]++
			if st, ok := v.Stream(rc.namespace, *t.Topic); ok {
				d.id = st.ID
				times[d.id]++
			} else {
				d.err = base.Errorf(base.CodeUnknownStream, "This server does not host this topic-partition.")
			}
			if asked[*t.Topic] > 1 {
				continue
			}
		}
		list = append(list, d)
	}
	for i := range list {
		if d := &list[i]; times[d.id] > 1 && d.err == nil || d.name != nil && asked[*d.name] > 1 {
			d.err, d.code = errRepeated, nil
		}
	}
	return list
}
