package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is one row of the list: what is served, in which versions, by which handler.
type api struct {
	key      kmsg.Key
	min, max int16
	run      handler

	// lower makes ApiVersions announce version 0 though min is above. Old librdkafka gives up on a
	// broker that does not announce Produce 0, though it does not use it (KAFKA-18659).
	lower bool
}

// handler answers one request. body is the request behind its header. It returns a kmsg.Response, a
// *fetchReply, or nil for a request that has no answer; an error ends the connection.
type handler func(s *Server, ctx context.Context, rc *request, body []byte) (any, error)

// listAPIs is the list of everything served. The versions are those of Apache Kafka 4.4, stable ones only.
func listAPIs() []api {
	return []api{
		{key: kmsg.ApiVersions, min: 0, max: 5, run: handle((*Server).apiVersions)},
	}
}

// handle adapts a handler of one message type: it decodes the request, and gives the response the
// request's version. The decoded request owns its memory.
func handle[T any, R interface {
	*T
	kmsg.Request
}](h func(*Server, context.Context, *request, R) (kmsg.Response, error)) handler {
	return func(s *Server, ctx context.Context, rc *request, body []byte) (any, error) {
		req := R(new(T))
		req.SetVersion(rc.version)
		if err := req.ReadFrom(body); err != nil {
			return nil, malformedf("%s version %d cannot be decoded: %v", rc.api.name, rc.version, err)
		}
		resp, err := h(s, ctx, rc, req)
		if err != nil || resp == nil {
			return nil, err
		}
		resp.SetVersion(rc.version)
		return resp, nil
	}
}

// served is an api as a server has it: with its name and its metrics.
type served struct {
	api
	name string
	m    apiMetrics
}

// apiTable finds a served API by its key.
type apiTable []*served

func newAPITable(list []api, m *metrics) apiTable {
	var t apiTable
	for _, a := range list {
		for int(a.key) >= len(t) {
			t = append(t, nil)
		}
		name := a.key.Name()
		t[a.key] = &served{api: a, name: name, m: m.of(name)}
	}
	return t
}

func (t apiTable) find(key int16) *served {
	if key < 0 || int(key) >= len(t) {
		return nil
	}
	return t[key]
}
