package amqp

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

// settings are the query parameters of an amqp:// URL.
type settings struct {
	queue    string // type of durable queues: classic or quorum
	mode     uint8  // delivery mode of messages
	prefetch int    // of consumers that ask for none, in messages; 0 leaves it to their kind
}

// ofProcess are settings that are not for drivers: they describe the target's process.
var ofProcess = []string{"name", "pid", "version", "config", "script", "dir", "data", "memory"}

// readSettings reads queue=classic|quorum, persistent=true|false and prefetch=N.
func readSettings(q url.Values) (s settings, err error) {
	s = settings{queue: "classic", mode: amqp.Persistent}
	for name, values := range q {
		v := values[0]
		switch {
		case slices.Contains(ofProcess, name):
		case len(values) > 1:
			return s, fmt.Errorf("%s is set %d times in the target's URL", name, len(values))
		case name == "queue":
			if v != "classic" && v != "quorum" {
				return s, fmt.Errorf("queue=%s is neither classic nor quorum", v)
			}
			s.queue = v
		case name == "persistent":
			persistent, err := strconv.ParseBool(v)
			if err != nil {
				return s, fmt.Errorf("persistent=%s is neither true nor false", v)
			}
			if !persistent {
				s.mode = amqp.Transient
			}
		case name == "prefetch":
			if s.prefetch, err = strconv.Atoi(v); err != nil || s.prefetch < 1 || s.prefetch > maxPrefetch {
				return s, fmt.Errorf("prefetch=%s is not a number of messages, 1 to %d", v, maxPrefetch)
			}
		default:
			return s, fmt.Errorf("%s is no setting of an amqp target: there are queue=classic|quorum, persistent=true|false and prefetch=N", name)
		}
	}
	return s, nil
}
