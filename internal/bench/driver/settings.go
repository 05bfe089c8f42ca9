package driver

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// OfProcess are the query parameters of a target's URL that describe its process; all others are the driver's.
var OfProcess = []string{"name", "pid", "version", "config", "memory", "data", "script", "dir"}

// Settings are the query parameters of a target's URL that are for its driver. It refuses one that is not known, and one that is
// there twice.
func Settings(u *url.URL, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the settings of %s://%s cannot be read: %w", u.Scheme, u.Host, err)
	}
	for name, values := range q {
		switch {
		case slices.Contains(OfProcess, name):
			delete(q, name)
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("%q is no setting of a target of %s://: %s", name, u.Scheme, listed(known))
		case len(values) > 1:
			return nil, fmt.Errorf("%s is set %d times in the target's URL", name, len(values))
		}
	}
	return q, nil
}

func listed(known []string) string {
	if len(known) == 0 {
		return "there are none"
	}
	return "there are " + strings.Join(known, ", ")
}
