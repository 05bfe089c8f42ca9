package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// brokerFlags are what every client command takes.
type brokerFlags struct {
	Broker  string        `default:"127.0.0.1:9092" placeholder:"HOST:PORT" env:"GODWIT_BROKER" help:"A broker that speaks the Kafka protocol."`
	Timeout time.Duration `default:"10s" placeholder:"10s" help:"How long to wait for the broker's answer."`
	JSON    bool          `name:"json" help:"One JSON object a line."`
}

// errNoBroker marks errors of reaching the broker at all.
var errNoBroker = errors.New("no broker answers")

// connect makes a client once something answers at the address; opts come on top.
func (b *brokerFlags) connect(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	if b.Timeout <= 0 {
		return nil, usage("--timeout must be above 0")
	}
	if _, _, err := net.SplitHostPort(b.Broker); err != nil {
		return nil, usage("--broker %q is not HOST:PORT", b.Broker)
	}
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	// The client library tries again and again; a refused connection needs no second look.
	c, err := new(net.Dialer).DialContext(ctx, "tcp", b.Broker)
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w", errNoBroker, b.Broker, err)
	}
	c.Close()
	base := []kgo.Opt{
		kgo.SeedBrokers(b.Broker), kgo.ClientID("godwit"), kgo.DialTimeout(b.Timeout),
		kgo.RetryTimeout(b.Timeout), kgo.RequestTimeoutOverhead(b.Timeout),
	}
	cl, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, err
	}
	if err := cl.Ping(ctx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("%w at %s: %w", errNoBroker, b.Broker, err)
	}
	return cl, nil
}

// admin runs fn with an admin client, within the time-out.
func (b *brokerFlags) admin(ctx context.Context, fn func(ctx context.Context, adm *kadm.Client) error) error {
	cl, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	return fn(ctx, kadm.NewClient(cl))
}

// refusal is a broker's error in the broker's words.
type refusal struct {
	what, msg string
	err       error
}

// Unwrap returns the error of the code.
func (r *refusal) Unwrap() error { return r.err }

func (r *refusal) Error() string {
	text := r.err.Error()
	if k, ok := errors.AsType[*kerr.Error](r.err); ok && r.msg != "" {
		text = r.msg + " (" + k.Message + ")"
	}
	return r.what + ": " + text
}

// withMessage adds the broker's own words to an error code.
func withMessage(what string, err error, msg string) error { return &refusal{what, msg, err} }

// explain says what to do about errors that are known.
func explain(err error) string {
	hint := ""
	switch {
	case errors.Is(err, errNoBroker):
		hint = "Is a broker running there? Start one: godwit serve. Or name another: --broker HOST:PORT"
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		hint = "The topic does not exist. See what there is: godwit topic list. Or make it: godwit topic create NAME"
	case errors.Is(err, kerr.TopicAlreadyExists):
		hint = "See it: godwit topic describe NAME. Change it: godwit topic alter NAME"
	case errors.Is(err, kerr.InvalidConfig):
		hint = "See a topic's configuration and its names: godwit topic describe NAME --all"
	case errors.Is(err, kerr.InvalidPartitions):
		hint = "The number of partitions can only grow: godwit topic describe NAME shows it"
	case errors.Is(err, kerr.InvalidReplicationFactor):
		hint = "There cannot be more replicas than brokers; leave --replicas out for the broker's default"
	case errors.Is(err, kerr.MessageTooLarge):
		hint = "Raise the limit of the topic: godwit topic alter NAME --config max.message.bytes=BYTES"
	case errors.Is(err, kerr.GroupIDNotFound):
		hint = "There is no such group. See what there is: godwit group list"
	case errors.Is(err, kerr.NonEmptyGroup):
		hint = "Stop its members first, and wait until their sessions have ended: godwit group describe NAME shows them"
	case errors.Is(err, kerr.GroupSubscribedToTopic):
		hint = "Members of the group read the topic: stop them first, or have them read others"
	case errors.Is(err, kerr.TransactionalIDNotFound):
		hint = "There is no such transactional ID. See what there is: godwit txn list"
	case errors.Is(err, context.DeadlineExceeded):
		hint = "The broker took too long; wait longer with --timeout, or look at its log"
	}
	if hint == "" {
		return err.Error()
	}
	return err.Error() + "\n" + hint + "."
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
