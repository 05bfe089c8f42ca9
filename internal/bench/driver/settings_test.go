package driver

import (
	"net/url"
	"strings"
	"testing"
)

// TestSettings leaves out what is about the process, and refuses what no driver would look at.
func TestSettings(t *testing.T) {
	read := func(query string) (url.Values, error) {
		return Settings(&url.URL{Scheme: "kafka", Host: "h:1", RawQuery: query}, "acks", "linger")
	}
	q, err := read("name=a&pid=1&acks=1&memory=5&script=s&dir=d&data=x&version=v&config=c")
	if err != nil || q.Encode() != "acks=1" {
		t.Fatalf("%v, %v", q, err)
	}
	for query, want := range map[string]string{
		"ack=1":         `"ack" is no setting of a target of kafka://: there are acks, linger`,
		"acks=1&acks=0": "acks is set 2 times",
		"acks=%zz":      "cannot be read",
	} {
		if _, err := read(query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
	if _, err := Settings(&url.URL{Scheme: "nats", Host: "h:1", RawQuery: "x=1"}); err == nil || !strings.Contains(err.Error(), "there are none") {
		t.Errorf("%v", err)
	}
}
