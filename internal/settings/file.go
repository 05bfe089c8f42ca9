package settings

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File holds the values of a YAML file by setting name, as text or, for topic-defaults, as a map.
type File map[string]any

// ReadFile reads the YAML file of a broker. names are the settings there are; a key that is none of them is an
// error that names the nearest.
func ReadFile(r io.Reader, names []string) (File, error) {
	var raw map[string]any
	d := yaml.NewDecoder(r)
	if err := d.Decode(&raw); err != nil && err != io.EOF {
		return nil, fmt.Errorf("not a YAML map of settings: %w", err)
	}
	if err := d.Decode(new(any)); err != io.EOF {
		return nil, fmt.Errorf("there is more than one YAML document; all settings belong into one")
	}
	f := File{}
	for key, v := range raw {
		if !slices.Contains(names, key) {
			return nil, fmt.Errorf("there is no setting %q; the nearest is %q", key, nearest(key, names))
		}
		switch m := v.(type) {
		case map[string]any:
			pairs := make([]string, 0, len(m))
			for k, v := range m {
				pairs = append(pairs, fmt.Sprintf("%s=%v", k, v))
			}
			slices.Sort(pairs)
			f[key] = strings.Join(pairs, ";")
		case []any:
			return nil, fmt.Errorf("%s: a list does not fit here", key)
		case nil:
			return nil, fmt.Errorf("%s: the value is missing; leave the key out for the default", key)
		default:
			f[key] = fmt.Sprint(v)
		}
	}
	return f, nil
}

// nearest finds the name with the fewest changes of a letter.
func nearest(key string, names []string) string {
	best, least := "", 1<<30
	for _, n := range names {
		if d := distance(key, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
