package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

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

// asText returns bytes as text, or as they are where they are not text.
func asText(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}

// toJSON is the record as 'consume --json' shows it.
func toJSON(r *kgo.Record) *jsonRecord {
	j := &jsonRecord{Topic: r.Topic, Partition: &r.Partition, Offset: &r.Offset, Timestamp: r.Timestamp.UnixMilli()}
	j.Key, j.KeyBase64 = asText(r.Key)
	j.Value, j.ValueBase64 = asText(r.Value)
	for _, h := range r.Headers {
		jh := jsonHeader{Name: h.Key}
		jh.Value, jh.ValueBase64 = asText(h.Value)
		j.Headers = append(j.Headers, jh)
	}
	return j
}

// fromJSON fills a record from one line as 'consume --json' shows it. Topic, partition and offset are not taken over.
func fromJSON(r *kgo.Record, line []byte) error {
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
	if d.More() {
		return errors.New("more than one JSON object")
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
