package cli

import (
	"encoding/json"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// FuzzJSONRecord reads any line, and writes what it read so that the same record is read from it.
func FuzzJSONRecord(f *testing.F) {
	f.Add([]byte(`{"key":null,"value":"v"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var first, second kgo.Record
		if fromJSON(&first, line) != nil {
			return
		}
		text, err := json.Marshal(toJSON(&first))
		if err != nil {
			t.Fatal(err)
		}
		if err := fromJSON(&second, text); err != nil {
			t.Fatalf("%q was read and written as %q: %v", line, text, err)
		}
		if !same(first.Key, second.Key) || !same(first.Value, second.Value) || len(first.Headers) != len(second.Headers) {
			t.Fatalf("%q was read as %+v, written as %q, read as %+v", line, first, text, second)
		}
		for i, h := range first.Headers {
			if h.Key != second.Headers[i].Key || !same(h.Value, second.Headers[i].Value) {
				t.Fatalf("%q: header %d is %+v, then %+v", line, i, h, second.Headers[i])
			}
		}
	})
}
