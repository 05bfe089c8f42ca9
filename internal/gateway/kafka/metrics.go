package kafka

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// metrics of the gateway. Labels are bounded: API names come from the list, errors from Kafka's table.
type metrics struct {
	requests *prometheus.CounterVec
	failures *prometheus.CounterVec
	duration *prometheus.HistogramVec

	connections prometheus.Gauge
	accepted    prometheus.Counter
	rejected    prometheus.Counter
	ended       *prometheus.CounterVec
	received    prometheus.Counter
	sent        prometheus.Counter
	panics      prometheus.Counter
}

// apiMetrics are the metrics of one API.
type apiMetrics struct {
	requests prometheus.Counter
	duration prometheus.Observer
}

// Why a connection ended, as a label.
const (
	endedPeer       = "peer"       // it went away
	endedIdle       = "idle"       // nothing happened for Options.IdleTimeout
	endedMalformed  = "malformed"  // a request could not be parsed, or is not served
	endedSlow       = "slow"       // a request or a response did not get through in time
	endedRefused    = "refused"    // a request without an answer failed: produce with acks=0
	endedPanic      = "panic"      // a handler has a bug
	endedUnreadable = "unreadable" // stored records could not be read
	endedShutdown   = "shutdown"
)

func newMetrics(reg prometheus.Registerer, s *Server) *metrics {
	name := func(s string) string { return "godwit_kafka_" + s }
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("requests_total"),
			Help: "Requests by API."}, []string{"api"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("errors_total"),
			Help: "Error codes in responses, by API and Kafka error; a response may have several."}, []string{"api", "error"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name("request_duration_seconds"),
			Help:    "Time from the last byte of a request to the handing over of its response to the system.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}, []string{"api"}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: name("connections"), Help: "Open connections."}),
		accepted:    prometheus.NewCounter(prometheus.CounterOpts{Name: name("connections_accepted_total"), Help: "Connections accepted."}),
		rejected:    prometheus.NewCounter(prometheus.CounterOpts{Name: name("connections_rejected_total"), Help: "Connections closed at once, because the limit of connections was reached."}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("connections_ended_total"),
			Help: "Connections that ended, by reason."}, []string{"reason"}),
		received: prometheus.NewCounter(prometheus.CounterOpts{Name: name("received_bytes_total"), Help: "Bytes of requests."}),
		sent:     prometheus.NewCounter(prometheus.CounterOpts{Name: name("sent_bytes_total"), Help: "Bytes of responses."}),
		panics:   prometheus.NewCounter(prometheus.CounterOpts{Name: name("panics_total"), Help: "Handlers that panicked."}),
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.failures, m.duration, m.connections, m.accepted, m.rejected, m.ended, m.received, m.sent, m.panics,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name("in_flight_bytes"),
				Help: "Bytes of requests that are not yet answered."}, func() float64 { return float64(s.inFlight()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name("share_sessions"),
				Help: "Sessions of members of share groups."}, func() float64 { return float64(s.shareSessions.Count()) }),
		)
	}
	return m
}

func (m *metrics) of(api string) apiMetrics {
	return apiMetrics{requests: m.requests.WithLabelValues(api), duration: m.duration.WithLabelValues(api)}
}

func (m *metrics) failed(a *served, e *kerr.Error) {
	m.failures.WithLabelValues(a.name, e.Message).Inc()
}

func (a *served) answered(received time.Time) {
	a.m.duration.Observe(time.Since(received).Seconds())
}
