package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type produceCmd struct {
	brokerFlags
	Topic       string   `arg:"" help:"Topic to write to."`
	Partition   int32    `default:"-1" placeholder:"N" help:"Partition to write to; -1 to choose by key, or in turn."`
	Key         string   `placeholder:"TEXT" help:"Key of every record."`
	KeySep      string   `name:"key-separator" placeholder:"TEXT" help:"Each line has its key before this text."`
	Headers     []string `name:"header" sep:"none" placeholder:"NAME=VALUE" help:"Header of every record, may be given several times."`
	Compression string   `default:"none" placeholder:"CODEC" enum:"none,gzip,snappy,lz4,zstd" help:"Codec: none, gzip, snappy, lz4 or zstd."`
	JSONLines   bool     `name:"json-lines" help:"Each line is a JSON object with key, value, headers and timestamp, as 'consume --json' writes them."`
	EmptyIsNull bool     `help:"An empty value is null: a tombstone."`
	Quiet       bool     `short:"q" help:"Do not say how many records were written."`
}

// Help is shown below the usage.
func (produceCmd) Help() string {
	return `The broker has acknowledged every record when the command ends with code 0. A line that cannot be read, or a record that is
refused, ends it with code 1 and the number of records that were written before.

    echo hello | godwit produce orders
    printf 'eu:1\nus:2\n' | godwit produce orders --key-separator : --header source=shell
    godwit consume orders --json | godwit produce copy --json-lines`
}

// deliveryTries is how often a record is sent before it counts as failed. A time-out would not do: the client counts it from the
// record's own timestamp.
const deliveryTries = 10

// maxLine bounds one record of the input, bytes.
const maxLine = 64 << 20

// Run implements the command.
func (c *produceCmd) Run(e *env) error {
	headers, err := c.headers()
	if err != nil {
		return err
	}
	codec := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}[c.Compression]
	size, err := c.batchSize(e.ctx)
	if err != nil {
		return err
	}
	cl, err := c.connect(e.ctx, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(chosen{kgo.StickyKeyPartitioner(nil)}),
		kgo.AllowAutoTopicCreation(), kgo.RecordRetries(deliveryTries), kgo.ProducerBatchMaxBytes(size),
		kgo.MaxBufferedRecords(10_000), kgo.MaxBufferedBytes(2*maxLine))
	if err != nil {
		return err
	}
	defer cl.Close()
	w := &writer{client: cl}
	failed := c.feed(e, w, headers)
	// What was read is written, also after a bad line. A signal gives it the time-out and no more.
	if err := cl.Flush(e.ctx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), c.Timeout)
		defer cancel()
		if err := cl.Flush(ctx); err != nil {
			w.note(fmt.Errorf("waiting for the broker: %w", err))
		}
	}
	written, err := w.result()
	if failed != nil && err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("%w\n%d record(s) were written before", err, written)
	}
	return c.report(e, written)
}

// feed hands every line of the input to the writer.
func (c *produceCmd) feed(e *env, w *writer, headers []kgo.RecordHeader) error {
	keep := context.WithoutCancel(e.ctx) // a signal ends reading, not what was read
	n := 0
	for line, err := range lines(e.ctx, e.in) {
		n++
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if w.failed() {
			return nil
		}
		if c.JSONLines && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		r := &kgo.Record{Topic: c.Topic, Partition: c.Partition, Headers: headers}
		if err := c.fill(r, line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		w.client.Produce(keep, r, w.done)
	}
	return nil
}

// lines reads lines until the end, an error, or the end of ctx, which does not wait for input.
func lines(ctx context.Context, in io.Reader) iter.Seq2[[]byte, error] {
	type line struct {
		text []byte
		err  error
	}
	return func(yield func([]byte, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		out := make(chan line, 64)
		go func() {
			defer close(out)
			scan := bufio.NewScanner(in)
			scan.Buffer(make([]byte, 64<<10), maxLine)
			send := func(l line) bool {
				select {
				case out <- l:
					return true
				case <-ctx.Done():
					return false
				}
			}
			for scan.Scan() {
				if !send(line{text: bytes.Clone(scan.Bytes())}) {
					return
				}
			}
			if err := scan.Err(); errors.Is(err, bufio.ErrTooLong) {
				send(line{err: fmt.Errorf("longer than %s", bytesText(maxLine))})
			} else if err != nil {
				send(line{err: err})
			}
		}()
		for {
			select {
			case l, ok := <-out:
				if !ok || !yield(l.text, l.err) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// batchSize is how large a batch may be: what the topic takes, so that large records go where they are allowed and
// batches of small ones are not refused.
func (c *produceCmd) batchSize(ctx context.Context) (int32, error) {
	const usual = 1_000_012 // below the default of every broker
	size := int32(usual)
	err := c.admin(ctx, func(ctx context.Context, adm *kadm.Client) error {
		configs, err := adm.DescribeTopicConfigs(ctx, c.Topic)
		if err != nil {
			return nil // the broker may not tell
		}
		for _, r := range configs {
			for _, k := range r.Configs {
				if n, err := strconv.ParseInt(k.MaybeValue(), 10, 32); k.Key == "max.message.bytes" && err == nil {
					size = int32(min(max(n, 1<<10), maxLine+1<<20))
				}
			}
		}
		return nil
	})
	return size, err
}

// writer counts what the broker acknowledged.
type writer struct {
	client *kgo.Client

	mu      sync.Mutex
	written int
	err     error
}

func (w *writer) done(_ *kgo.Record, err error) {
	if err != nil {
		w.note(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written++
}

// note keeps the first error.
func (w *writer) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

func (w *writer) result() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written, w.err
}

func (c *produceCmd) headers() (out []kgo.RecordHeader, err error) {
	for _, h := range c.Headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, usage("--header %q is not NAME=VALUE", h)
		}
		out = append(out, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return out, nil
}

func (c *produceCmd) report(e *env, written int) error {
	if c.Quiet {
		return nil
	}
	if c.JSON {
		return writeJSON(e.out, map[string]any{"topic": c.Topic, "records": written})
	}
	_, err := fmt.Fprintf(e.out, "wrote %d record(s) to %s\n", written, c.Topic)
	return err
}

// chosen uses a record's own partition where it has one.
type chosen struct{ kgo.Partitioner }

type chosenTopic struct{ kgo.TopicPartitioner }

// ForTopic implements kgo.Partitioner.
func (c chosen) ForTopic(topic string) kgo.TopicPartitioner {
	return chosenTopic{c.Partitioner.ForTopic(topic)}
}

// RequiresConsistency implements kgo.TopicPartitioner.
func (c chosenTopic) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || c.TopicPartitioner.RequiresConsistency(r)
}

// Partition implements kgo.TopicPartitioner.
func (c chosenTopic) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return c.TopicPartitioner.Partition(r, n)
}

// OnNewBatch implements kgo.TopicPartitionerOnNewBatch: records without a key go on to another partition.
func (c chosenTopic) OnNewBatch() {
	if o, ok := c.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		o.OnNewBatch()
	}
}

// fill makes a record of a line, which it keeps.
func (c *produceCmd) fill(r *kgo.Record, line []byte) error {
	if c.JSONLines {
		r.Headers = slices.Clip(r.Headers)
		return fromJSON(r, line)
	}
	if c.Key != "" {
		r.Key = []byte(c.Key)
	}
	r.Value = line
	if c.KeySep != "" {
		key, value, ok := bytes.Cut(line, []byte(c.KeySep))
		if !ok {
			return fmt.Errorf("no %q between key and value", c.KeySep)
		}
		r.Key, r.Value = key, value
	}
	if c.EmptyIsNull && len(r.Value) == 0 {
		r.Value = nil
	}
	return nil
}
