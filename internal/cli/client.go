package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// brokerFlags are what every client command takes.
type brokerFlags struct {
	Broker  string        `default:"127.0.0.1:9092" placeholder:"HOST:PORT" help:"A broker that speaks the Kafka protocol."`
	Timeout time.Duration `default:"10s" help:"How long to wait for the broker."`
	JSON    bool          `name:"json" help:"One JSON object a line."`
}

// client connects; opts come on top.
func (b *brokerFlags) client(opts ...kgo.Opt) (*kgo.Client, error) {
	base := []kgo.Opt{
		kgo.SeedBrokers(b.Broker), kgo.ClientID("godwit"), kgo.DialTimeout(b.Timeout),
		kgo.RetryTimeout(b.Timeout), kgo.RequestTimeoutOverhead(b.Timeout),
	}
	return kgo.NewClient(append(base, opts...)...)
}

// admin runs fn with an admin client, within the time-out.
func (b *brokerFlags) admin(ctx context.Context, fn func(ctx context.Context, adm *kadm.Client) error) error {
	cl, err := b.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := b.ping(ctx, cl); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	return fn(ctx, kadm.NewClient(cl))
}

// ping finds out whether there is a broker.
func (b *brokerFlags) ping(ctx context.Context, cl *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	if err := cl.Ping(ctx); err != nil {
		return fmt.Errorf("no broker answers at %s: %w", b.Broker, err)
	}
	return nil
}

// explain says what to do about errors that are known.
func explain(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return text + "\nThe topic does not exist. See what there is: godwit topic list"
	case errors.Is(err, kerr.TopicAlreadyExists):
		return text + "\nSee it: godwit topic describe NAME"
	case errors.Is(err, kerr.MessageTooLarge):
		return text + "\nRaise the limit of the topic: godwit topic alter NAME --config max.message.bytes=BYTES"
	case errors.Is(err, context.DeadlineExceeded):
		return text + "\nIs a broker running there? Start one: godwit serve. Or name another: --broker HOST:PORT"
	}
	return text
}

// writeJSON writes one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table writes rows in columns; the first row is the head.
func table(w io.Writer, rows [][]any) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		for i, c := range r {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, c)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// bytesText writes a number of bytes for a person.
func bytesText(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}
