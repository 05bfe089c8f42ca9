package amqp

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"godwit/internal/bench/driver"
)

func parse(t *testing.T, target string) *url.URL {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestSettings(t *testing.T) {
	got, err := readSettings(parse(t, "amqp://h:1/?name=n&pid=1&version=v&config=c&script=s&dir=d&data=d&memory=1"))
	if want := (settings{queue: "classic", mode: 2}); err != nil || got != want {
		t.Errorf("without settings of its own: %+v, %v; want %+v", got, err, want)
	}
	got, err = readSettings(parse(t, "amqp://h:1/?queue=quorum&persistent=false&prefetch=7"))
	if want := (settings{queue: "quorum", mode: 1, prefetch: 7}); err != nil || got != want {
		t.Errorf("with all settings: %+v, %v; want %+v", got, err, want)
	}
}

func TestSettingsRefused(t *testing.T) {
	for query, word := range map[string]string{
		"queue=stream": "queue=stream", "queue=": "queue=", "persistent=maybe": "persistent=maybe",
		"prefetch=0": "prefetch=0", "prefetch=65536": "prefetch=65536", "prefetch=x": "prefetch=x",
		"confirm=true": "confirm", "queue=classic&queue=quorum": "2 times",
	} {
		_, err := New(context.Background(), driver.Options{URL: parse(t, "amqp://127.0.0.1:1/?"+query), Net: &driver.Network{}, Logf: t.Logf})
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s is answered with %v", query, err)
		}
	}
}

func TestAddress(t *testing.T) {
	for target, want := range map[string]struct{ vhost, user, password string }{
		"amqp://h:1":             {"/", "guest", "guest"},
		"amqp://h:1/":            {"/", "guest", "guest"},
		"amqp://u:p%40@h:1/%2f":  {"/", "u", "p@"},
		"amqp://u@h:1/v":         {"v", "u", ""},
		"amqp://u:p@h:1/a%2Fb/c": {"a/b/c", "u", "p"},
	} {
		u := parse(t, target)
		if got := vhost(u); got != want.vhost {
			t.Errorf("%s has virtual host %q, want %q", target, got, want.vhost)
		}
		if c := credentials(u); c.Username != want.user || c.Password != want.password {
			t.Errorf("%s has credentials %q %q, want %q %q", target, c.Username, c.Password, want.user, want.password)
		}
	}
}
