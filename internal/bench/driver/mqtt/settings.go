package mqtt

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// processSettings describe the target's process, not its protocol.
var processSettings = []string{"name", "pid", "version", "config", "script", "dir", "data", "memory"}

// readSettings reads qos=0|1|2 and refuses what is unknown.
func readSettings(u *url.URL) (qos byte, err error) {
	if strings.Trim(u.Path, "/") != "" {
		return 0, fmt.Errorf("mqtt://%s%s: MQTT has nothing that a path could name; leave it out", u.Host, u.Path)
	}
	q := u.Query()
	for name := range q {
		if name != "qos" && !slices.Contains(processSettings, name) {
			return 0, fmt.Errorf("unknown setting %s=%s: the one of mqtt:// is qos=0, 1 or 2", name, q.Get(name))
		}
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
