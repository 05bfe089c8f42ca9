package mqtt

import (
	"fmt"
	"net/url"
	"strings"

	"godwit/internal/bench/driver"
)

// readSettings reads qos=0|1|2 and refuses what is unknown.
func readSettings(u *url.URL) (qos byte, err error) {
	if strings.Trim(u.Path, "/") != "" {
		return 0, fmt.Errorf("mqtt://%s%s: MQTT has nothing that a path could name; leave it out", u.Host, u.Path)
	}
	q, err := driver.Settings(u, "qos")
	if err != nil {
		return 0, err
	}
	switch v := q.Get("qos"); v {
	case "":
		return 1, nil
	case "0", "1", "2":
		return v[0] - '0', nil
	default:
		return 0, fmt.Errorf("qos=%s is none of 0, 1 and 2", v)
	}
}
