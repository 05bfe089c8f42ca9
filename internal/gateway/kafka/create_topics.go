package kafka

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/base"
	"godwit/internal/meta"
)

// CreateTopics (19), versions 2 to 7.
//
//   - 4: -1 partitions or replicas ask for the broker's default (KIP-464)
//   - 5: the response tells partitions, replicas and configuration (KIP-525)
//   - 7: the topic's ID
//
// A name that stands in the request more than once is refused, the other topics are made.

func (s *Server) createTopics(ctx context.Context, rc *request, req *kmsg.CreateTopicsRequest) (kmsg.Response, error) {
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	topics, repeated := once(req.Topics, func(t kmsg.CreateTopicsRequestTopic) string { return t.Topic })
	made := make([]*meta.Stream, len(topics))
	errs := make([]error, len(topics))
	parallel(len(topics), func(i int) {
		if repeated[topics[i].Topic] {
			errs[i] = errRepeated
			return
		}
		made[i], errs[i] = s.createTopic(ctx, rc, &topics[i], req.ValidateOnly)
	})
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	for i, t := range topics {
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic = t.Topic
		if errs[i] != nil {
			out.ErrorCode, out.ErrorMessage = rc.failAdmin(errs[i]), message(errs[i])
		} else {
			s.describeCreated(&out, made[i])
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// errRepeated is the fault of a name that a request has more than once.
var errRepeated = base.Errorf(base.CodeInvalidRequest, "Duplicate topic name.")

// createTopic makes one topic, or only validates.
func (s *Server) createTopic(ctx context.Context, rc *request, t *kmsg.CreateTopicsRequestTopic, validateOnly bool) (*meta.Stream, error) {
	if err := meta.ValidName(t.Topic); err != nil {
		return nil, err
	}
	if _, exists := s.backend.Meta().Stream(rc.namespace, t.Topic); exists {
		return nil, base.Errorf(base.CodeStreamExists, "Topic '%s' already exists.", t.Topic)
	}
	overrides, err := createOverrides(t.Configs)
	if err != nil {
		return nil, err
	}
	partitions, replicas, err := s.layout(t)
	if err != nil {
		return nil, err
	}
	return s.backend.CreateStream(ctx, meta.CreateStream{
		Namespace: rc.namespace, Name: t.Topic, Partitions: partitions, Replicas: replicas, Overrides: overrides, DryRun: validateOnly,
	})
}

func createOverrides(configs []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, error) {
	overrides := make(map[string]string, len(configs))
	var null []string
	for _, c := range configs {
		if c.Value == nil {
			null = append(null, c.Name)
			continue
		}
		overrides[c.Name] = *c.Value
	}
	if len(null) > 0 {
		return nil, base.Errorf(base.CodeInvalidConfig, "Null value not supported for topic configs: %s", strings.Join(null, ","))
	}
	return overrides, nil
}

// layout finds the number of partitions and replicas: as said, or as the manual assignment has them, which on one
// node can only say one thing.
func (s *Server) layout(t *kmsg.CreateTopicsRequestTopic) (partitions int, replicas int16, err error) {
	if len(t.ReplicaAssignment) == 0 {
		switch {
		case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
			return 0, 0, base.Errorf(base.CodeInvalidReplication, "Replication factor must be larger than 0, or -1 to use the default value.")
		case t.NumPartitions < -1 || t.NumPartitions == 0:
			return 0, 0, base.Errorf(base.CodeInvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
		}
		return int(t.NumPartitions), t.ReplicationFactor, nil
	}
	if t.ReplicationFactor != -1 {
		return 0, 0, base.Errorf(base.CodeInvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if t.NumPartitions != -1 {
		return 0, 0, base.Errorf(base.CodeInvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	seen := make([]bool, len(t.ReplicaAssignment))
	for _, a := range t.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= len(seen) {
			return 0, 0, base.Errorf(base.CodeInvalidAssignment, "The partitions of a manual assignment must be numbered from 0 without gaps; %d of %d is not.", a.Partition, len(seen))
		}
		if seen[a.Partition] {
			return 0, 0, base.Errorf(base.CodeInvalidAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		seen[a.Partition] = true
		if err := s.checkReplicas(a.Replicas); err != nil {
			return 0, 0, err
		}
	}
	return len(seen), 1, nil
}

// checkReplicas accepts the only set of replicas that one node can hold: itself.
func (s *Server) checkReplicas(replicas []int32) error {
	if len(replicas) == 0 {
		return base.Errorf(base.CodeInvalidAssignment, "The manual partition assignment includes an empty replica list.")
	}
	for i, id := range replicas {
		switch {
		case slices.Contains(replicas[:i], id):
			return base.Errorf(base.CodeInvalidAssignment, "The manual partition assignment includes the broker %d more than once.", id)
		case id != s.backend.NodeID():
			return base.Errorf(base.CodeInvalidAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
	}
	return nil
}

// describeCreated fills in what versions 5 and 7 tell of a new topic.
func (s *Server) describeCreated(out *kmsg.CreateTopicsResponseTopic, st *meta.Stream) {
	out.TopicID, out.NumPartitions, out.ReplicationFactor = st.ID, int32(len(st.Partitions)), st.Replicas
	for _, c := range s.topicConfigs(st) {
		out.Configs = append(out.Configs, kmsg.CreateTopicsResponseTopicConfig{Name: c.def.Name, Value: &c.value, Source: int8(c.source)})
	}
}

// within ends ctx after the time-out of a request, ms. Without one, the request may take half a minute.
func within(ctx context.Context, millis int32) (context.Context, context.CancelFunc) {
	if millis <= 0 {
		millis = 30_000
	}
	return context.WithTimeoutCause(ctx, time.Duration(millis)*time.Millisecond, errTimeout)
}

// errTimeout is why a request that took too long ended.
var errTimeout = base.Errorf(base.CodeTimeout, "The request took longer than its time-out; it may still be carried out.")

// once drops repetitions from a list and says which names were repeated.
func once[T any](list []T, name func(T) string) (out []T, repeated map[string]bool) {
	seen := make(map[string]bool, len(list))
	repeated = map[string]bool{}
	for _, t := range list {
		n := name(t)
		if seen[n] {
			repeated[n] = true
			continue
		}
		seen[n] = true
		out = append(out, t)
	}
	return out, repeated
}

// parallelism is how many items of one administrative request are worked on at a time. They share the
// journal's syncs.
const parallelism = 64

// parallel calls fn for 0 to n-1, several at a time, and waits for all.
func parallel(n int, fn func(i int)) {
	if n == 1 {
		fn(0)
		return
	}
	var wg sync.WaitGroup
	for first := range min(n, parallelism) {
		wg.Go(func() {
			for i := first; i < n; i += parallelism {
				fn(i)
			}
		})
	}
	wg.Wait()
}
