package amqp

import (
	"fmt"
	"net/url"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"godwit/internal/bench/driver"
)

// settings are the query parameters of an amqp:// URL.
type settings struct {
	queue    string // type of durable queues: classic or quorum
	mode     uint8  // delivery mode of messages
	prefetch int    // of consumers that ask for none, in messages; 0 leaves it to their kind
}

// readSettings reads queue=classic|quorum, persistent=true|false and prefetch=N.
func readSettings(u *url.URL) (s settings, err error) {
	s = settings{queue: "classic", mode: amqp.Persistent}
	q, err := driver.Settings(u, "persistent", "prefetch", "queue")
	if err != nil {
		return s, err
	}
	if q.Has("queue") {
		if s.queue = q.Get("queue"); s.queue != "classic" && s.queue != "quorum" {
			return s, fmt.Errorf("queue=%s is neither classic nor quorum", s.queue)
		}
	}
	if q.Has("persistent") {
		persistent, err := strconv.ParseBool(q.Get("persistent"))
		if err != nil {
			return s, fmt.Errorf("persistent=%s is neither true nor false", q.Get("persistent"))
		}
		if !persistent {
			s.mode = amqp.Transient
		}
	}
	if q.Has("prefetch") {
		if s.prefetch, err = strconv.Atoi(q.Get("prefetch")); err != nil || s.prefetch < 1 || s.prefetch > maxPrefetch {
			return s, fmt.Errorf("prefetch=%s is not a number of messages, 1 to %d", q.Get("prefetch"), maxPrefetch)
		}
	}
	return s, nil
}
