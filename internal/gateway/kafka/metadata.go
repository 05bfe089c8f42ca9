package kafka

import (
	"context"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
)

// Metadata: versions 0 to 13.
//
// This node is the only broker, the controller and the leader of everything. A topic that does not exist is
// created where the request allows it and Options.DisableAutoCreate does not forbid it; the response
// has it already, where Kafka's has an error first.
//
//   - 0: an empty list of topics means all; from 1 on it means none, and null means all
//   - 4: the client may forbid creation
//   - 8: authorized operations (KIP-430)
//   - 9: flexible
//   - 10: topic IDs in the response
//   - 11: no authorized operations of the cluster any more (KIP-700)
//   - 12: topics may be asked for by ID (KIP-516)
//   - 13: an error for the request as a whole
func (s *Server) metadata(ctx context.Context, rc *request, req *kmsg.MetadataRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.AuthorizedOperations, resp.ControllerID = operationsUnknown, -1
	if idsTooEarly(req) {
		s.refuseIDs(rc, req, resp)
		return resp, nil
	}
	view := s.backend.Meta()
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID = s.backend.NodeID()
	b.Host, b.Port = rc.host()
	resp.Brokers = append(resp.Brokers, b)
	resp.ClusterID = &view.ClusterID
	resp.ControllerID = b.NodeID
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = operationsCluster
	}
	d := describing{s: s, rc: rc, nodes: []int32{b.NodeID}, operations: operationsUnknown}
	if req.IncludeTopicAuthorizedOperations {
		d.operations = operationsTopic
	}
	if req.Topics != nil && (req.Version > 0 || len(req.Topics) > 0) {
		resp.Topics = s.metadataOf(ctx, &d, req)
		return resp, nil
	}
	for _, st := range view.Streams(rc.namespace) {
		resp.Topics = append(resp.Topics, d.metadata(st))
	}
	return resp, nil
}

// idsTooEarly reports whether topics are asked for by ID in a version that does not have that yet.
func idsTooEarly(req *kmsg.MetadataRequest) bool {
	if req.Version >= 12 {
		return false
	}
	for i := range req.Topics {
		if req.Topics[i].Topic == nil || req.Topics[i].TopicID != (base.StreamID{}) {
			return true
		}
	}
	return false
}

// refuseIDs answers such a request: with errors and nothing else.
func (s *Server) refuseIDs(rc *request, req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	d := describing{s: s, rc: rc, operations: operationsUnknown}
	for i := range req.Topics {
		t := d.missing(kerr.InvalidRequest, textOf(req.Topics[i].Topic))
		t.TopicID = req.Topics[i].TopicID
		resp.Topics = append(resp.Topics, t)
	}
}

// metadataOf describes the topics that a request names, each once. As in Kafka, names are not looked
// at if any topic is asked for by ID.
func (s *Server) metadataOf(ctx context.Context, d *describing, req *kmsg.MetadataRequest) (out []kmsg.MetadataResponseTopic) {
	ids := map[base.StreamID]bool{}
	names := map[string]bool{}
	for i := range req.Topics {
		if id := base.StreamID(req.Topics[i].TopicID); !id.IsZero() && !ids[id] {
			ids[id] = true
			st, err := d.rc.streamByID(s.backend.Meta(), id)
			if err != nil {
				t := d.missing(kerr.UnknownTopicID, "")
				t.Topic, t.TopicID = nil, id
				out = append(out, t)
				continue
			}
			out = append(out, d.metadata(st))
		}
	}
	if len(ids) > 0 {
		return out
	}
	create := (req.Version < 4 || req.AllowAutoTopicCreation) && !s.opts.DisableAutoCreate
	for i := range req.Topics {
		name := textOf(req.Topics[i].Topic)
		if names[name] {
			continue
		}
		names[name] = true
		st, err := d.rc.streamByName(s.backend.Meta(), name)
		if err != nil && create {
			st, err = s.autoCreate(ctx, d.rc, name)
		}
		switch {
		case err == nil:
			out = append(out, d.metadata(st))
		case base.CodeOf(err) == base.CodeUnknownStream:
			out = append(out, d.missing(missingTopic(name), name))
		default:
			t := d.missing(nil, name)
			t.ErrorCode = d.rc.failAdmin(err)
			out = append(out, t)
		}
	}
	return out
}

// missingTopic is the error for a name that no topic has.
func missingTopic(name string) *kerr.Error {
	if meta.ValidName(name) != nil {
		return kerr.InvalidTopicException
	}
	return kerr.UnknownTopicOrPartition
}

// isInternal reports whether clients take a topic for one of the broker's own, by Kafka's names. This broker has none;
// they exist only if somebody makes them.
func isInternal(name string) bool {
	return name == "__consumer_offsets" || name == "__transaction_state" || name == "__share_group_state"
}

// autoCreateTimeout bounds how long a metadata request waits for the topics that it makes.
const autoCreateTimeout = 10 * time.Second

// autoCreate makes a topic because a client asked about it. Somebody else may do so at the same time.
func (s *Server) autoCreate(ctx context.Context, rc *request, name string) (*meta.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, autoCreateTimeout)
	defer cancel()
	st, err := s.backend.CreateStream(ctx, meta.CreateStream{Namespace: rc.namespace, Name: strings.Clone(name), Partitions: -1, Replicas: -1})
	if err != nil && base.CodeOf(err) == base.CodeStreamExists {
		return rc.streamByName(s.backend.Meta(), name)
	}
	return st, err
}

// describing is what the descriptions of topics have in common.
type describing struct {
	s          *Server
	rc         *request
	nodes      []int32 // replicas of everything: this node
	operations int32
}

// metadata describes a topic. A partition whose log is not made yet has no leader.
func (d *describing) metadata(st *meta.Stream) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID, t.IsInternal, t.AuthorizedOperations = &st.Name, st.ID, isInternal(st.Name), d.operations
	t.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(st.Partitions))
	for i := range st.Partitions {
		p := &t.Partitions[i]
		*p = kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Replicas, p.ISR = int32(i), d.nodes, d.nodes
		p.Leader, p.LeaderEpoch = d.nodes[0], d.s.backend.LeaderEpoch(st.Partitions[i])
		if i >= st.Ready {
			p.Leader, p.LeaderEpoch, p.ErrorCode = -1, -1, kerr.LeaderNotAvailable.Code
		}
	}
	return t
}

// missing describes a topic that is not there.
func (d *describing) missing(e *kerr.Error, name string) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	if e != nil {
		t.ErrorCode = d.rc.reject(e)
	}
	t.Topic, t.AuthorizedOperations = &name, d.operations
	return t
}
