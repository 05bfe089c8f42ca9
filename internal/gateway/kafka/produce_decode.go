package kafka

import (
	"github.com/twmb/franz-go/pkg/kbin"

	"godwit/internal/base"
)

// produceRequest is a decoded Produce request. Its strings and records are part of the request's memory.
type produceRequest struct {
	txnID   *string // transactional ID; nil: none
	acks    int16
	timeout int32 // ms
	topics  []produceTopic
	items   []produceItem // of all topics, in the order of the request
}

type produceTopic struct {
	name  string        // versions up to 12
	id    base.StreamID // versions 13 and above
	items int           // so many of the items are of this topic
}

type produceItem struct {
	index   int32
	records []byte
}

// decodeProduce decodes a request body. Unlike kmsg it allocates nothing on the word of a length: a
// topic or partition takes memory once its bytes are there.
func decodeProduce(body []byte, version int16) (p produceRequest, err error) {
	r := kbin.Reader{Src: body}
	compact := version >= 9
	array := func() int {
		if compact {
			return int(r.CompactArrayLen())
		}
		return int(r.ArrayLen())
	}
	tags := func() {
		if compact {
			skipTagged(&r)
		}
	}
	if compact {
		p.txnID = r.UnsafeCompactNullableString()
	} else {
		p.txnID = r.UnsafeNullableString()
	}
	p.acks, p.timeout = r.Int16(), r.Int32()
	for range array() {
		var t produceTopic
		switch {
		case version >= 13:
			t.id = r.Uuid()
		case compact:
			t.name = r.UnsafeCompactString()
		default:
			t.name = r.UnsafeString()
		}
		for range array() {
			i := produceItem{index: r.Int32()}
			if compact {
				i.records = r.CompactNullableBytes()
			} else {
				i.records = r.NullableBytes()
			}
			tags()
			if !r.Ok() {
				return p, malformedf("Produce version %d cannot be decoded: it ends early", version)
			}
			p.items = append(p.items, i)
			t.items++
		}
		tags()
		if !r.Ok() {
			break
		}
		p.topics = append(p.topics, t)
	}
	tags()
	if !r.Ok() {
		return p, malformedf("Produce version %d cannot be decoded: it ends early", version)
	}
	return p, nil
}

// skipTagged drops the tagged fields at the end of a structure.
func skipTagged(r *kbin.Reader) {
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		r.Uvarint()
		r.Span(int(r.Uvarint()))
	}
}
