package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type produceCmd struct {
	brokerFlags
	Topic       string   `arg:"" help:"Topic to write to."`
	Partition   int32    `default:"-1" help:"Partition to write to; -1 to choose by key, or in turn."`
	Key         string   `help:"Key of every record."`
	KeySep      string   `name:"key-separator" placeholder:"TEXT" help:"Each line has its key before this text."`
	Headers     []string `name:"header" sep:"none" placeholder:"NAME=VALUE" help:"Header of every record, may be given several times."`
	Compression string   `default:"none" enum:"none,gzip,snappy,lz4,zstd" help:"Codec: none, gzip, snappy, lz4 or zstd."`
	JSONLines   bool     `name:"json-lines" help:"Each line is a JSON object with key, value, headers and timestamp, as 'consume --json' writes them."`
	EmptyIsNull bool     `help:"An empty value is null: a tombstone."`
	Quiet       bool     `short:"q" help:"Do not say how many records were written."`
}

// Help is shown below the usage.
func (produceCmd) Help() string {
	return `    echo hello | godwit produce orders
    printf 'eu:1\nus:2\n' | godwit produce orders --key-separator : --header source=shell
    godwit consume orders --json | godwit produce copy --json-lines

Each record is acknowledged by the broker before the command ends with code 0.`
}

// deliveryTries is how often a record is sent before it counts as failed. A time-out would not do: the client counts it from the
// record's own timestamp.
const deliveryTries = 10

// maxLine bounds one record of the input, bytes.
const maxLine = 64 << 20

// Run implements the command.
func (c *produceCmd) Run(e *env) error {
	codec := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}[c.Compression]
	cl, err := c.client(kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(chosen{kgo.StickyKeyPartitioner(nil)}),
		kgo.AllowAutoTopicCreation(), kgo.RecordRetries(deliveryTries), kgo.ProducerBatchMaxBytes(maxLine), kgo.MaxBufferedRecords(10_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := c.ping(e.ctx, cl); err != nil {
		return err
	}
	var mu sync.Mutex
	var failure error
	written := 0
	done := func(_ *kgo.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			written++
		} else if failure == nil {
			failure = err
		}
	}
	failed := func() error {
		mu.Lock()
		defer mu.Unlock()
		return failure
	}
	in := bufio.NewScanner(e.in)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for line := 1; in.Scan() && failed() == nil; line++ {
		r, err := c.record(in.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		cl.Produce(e.ctx, r, done)
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("reading the input: %w", err)
	}
	if err := cl.Flush(e.ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if err := failed(); err != nil {
		return fmt.Errorf("%d records were written, then: %w", written, err)
	}
	return c.report(e, written)
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

// record makes a record of one line.
func (c *produceCmd) record(line []byte) (*kgo.Record, error) {
	r := &kgo.Record{Topic: c.Topic, Partition: c.Partition}
	for _, h := range c.Headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, usage("header %q is not NAME=VALUE", h)
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	if c.JSONLines {
		return r, c.fromJSON(r, line)
	}
	line = bytes.Clone(line)
	if c.Key != "" {
		r.Key = []byte(c.Key)
	}
	r.Value = line
	if c.KeySep != "" {
		key, value, ok := bytes.Cut(line, []byte(c.KeySep))
		if !ok {
			return nil, fmt.Errorf("no %q between key and value", c.KeySep)
		}
		r.Key, r.Value = key, value
	}
	if c.EmptyIsNull && len(r.Value) == 0 {
		r.Value = nil
	}
	return r, nil
}

// jsonRecord is a record as one JSON line: text where it is text, else base64 in the fields that end in Base64.
type jsonRecord struct {
	Topic       string       `json:"topic,omitempty"`
	Partition   *int32       `json:"partition,omitempty"`
	Offset      *int64       `json:"offset,omitempty"`
	Timestamp   int64        `json:"timestamp,omitempty"` // Unix ms
	Key         *string      `json:"key"`
	KeyBase64   []byte       `json:"keyBase64,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 []byte       `json:"valueBase64,omitempty"`
	Headers     []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"valueBase64,omitempty"`
}

func fromText(text *string, raw []byte) []byte {
	if raw != nil {
		return raw
	}
	if text == nil {
		return nil
	}
	return []byte(*text)
}

func (c *produceCmd) fromJSON(r *kgo.Record, line []byte) error {
	var j jsonRecord
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		var b64 base64.CorruptInputError
		if errors.As(err, &b64) {
			return fmt.Errorf("not base64: %w", err)
		}
		return fmt.Errorf("not a record as JSON: %w", err)
	}
	r.Key, r.Value = fromText(j.Key, j.KeyBase64), fromText(j.Value, j.ValueBase64)
	if j.Timestamp > 0 {
		r.Timestamp = time.UnixMilli(j.Timestamp)
	}
	for _, h := range j.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: fromText(h.Value, h.ValueBase64)})
	}
	return nil
}
