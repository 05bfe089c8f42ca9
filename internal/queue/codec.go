package queue

import (
	"encoding/binary"

	"godwit/internal/base"
	"godwit/internal/varint"
)

// commandVersion is the format of commands; the byte stands first.
const commandVersion = 1

// The kinds of commands, the byte behind the version.
const (
	kindAcquire = 1 + iota
	kindSettle
	kindAdmit
	kindPromote
	kindTrim
	kindReset
	kindConfirm
)

// AppendCommand writes a command behind dst: version, kind, Seq, Time, then the fields in the order of the struct. Numbers of
// commands and effects, lengths and counts are unsigned varints, other integers zig-zag varints; a span is its first
// offset and its last minus its first; strings follow their length.
func AppendCommand(dst []byte, c Command) []byte { return c.appendTo(append(dst, commandVersion)) }

func (s *Step) append(dst []byte, kind byte) []byte {
	return binary.AppendVarint(binary.AppendUvarint(append(dst, kind), s.Seq), s.Time)
}

func (c *Acquire) appendTo(dst []byte) []byte {
	dst = binary.AppendVarint(varint.AppendText(c.append(dst, kindAcquire), c.Consumer), c.Deadline)
	return appendSpans(appendSpans(dst, c.Gaps), c.Spans)
}

func (c *Settle) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(c.append(dst, kindSettle), uint64(len(c.Changes)))
	for i := range c.Changes {
		ch := &c.Changes[i]
		dst = binary.AppendVarint(append(appendSpan(dst, ch.Span), byte(ch.Op)), ch.Until)
		dst = varint.AppendBool(append(dst, byte(ch.Cause)), ch.Report)
	}
	return dst
}

func (c *Admit) appendTo(dst []byte) []byte {
	dst = binary.AppendVarint(c.append(dst, kindAdmit), c.End)
	dst = binary.AppendUvarint(dst, uint64(len(c.Records)))
	for i := range c.Records {
		dst = varint.AppendBool(c.Records[i].appendTo(dst), c.Records[i].Later)
	}
	return dst
}

func (c *Promote) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(c.append(dst, kindPromote), uint64(len(c.Records)))
	for i := range c.Records {
		dst = binary.AppendVarint(c.Records[i].appendTo(dst), int64(c.Records[i].Deliveries))
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Stale)))
	for _, k := range c.Stale {
		dst = appendInts(dst, k.Due, k.Offset)
	}
	return dst
}

func (c *Trim) appendTo(dst []byte) []byte {
	return varint.AppendBool(binary.AppendVarint(c.append(dst, kindTrim), c.Start), c.Report)
}

func (c *Reset) appendTo(dst []byte) []byte {
	return binary.AppendVarint(c.append(dst, kindReset), c.Start)
}

func (c *Confirm) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(c.append(dst, kindConfirm), uint64(len(c.IDs)))
	for _, id := range c.IDs {
		dst = binary.AppendUvarint(dst, id)
	}
	return dst
}

func (m *Meta) appendTo(dst []byte) []byte {
	dst = varint.AppendText(binary.AppendVarint(dst, m.Offset), m.Lane)
	return appendInts(append(dst, m.Priority), m.NotBefore, m.Expires)
}

func appendInts(dst []byte, vs ...int64) []byte {
	for _, v := range vs {
		dst = binary.AppendVarint(dst, v)
	}
	return dst
}

func appendSpan(dst []byte, s Span) []byte {
	return binary.AppendUvarint(binary.AppendVarint(dst, s.First), uint64(s.Last-s.First))
}

func appendSpans(dst []byte, spans []Span) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(spans)))
	for _, s := range spans {
		dst = appendSpan(dst, s)
	}
	return dst
}

// The least that an element takes, bytes.
const (
	spanSize   = 2
	changeSize = spanSize + 4
	metaSize   = 5
)

// DecodeCommand reads what AppendCommand wrote. Anything else is a CodeCorruption error. The result shares no
// memory with b.
func DecodeCommand(b []byte) (Command, error) {
	if len(b) < 2 || b[0] != commandVersion {
		return nil, base.Errorf(base.CodeCorruption, "queue command of %d bytes has an unknown version", len(b))
	}
	r := newReader(b[2:])
	s := Step{Seq: r.Uint(), Time: r.Int()}
	var c Command
	switch b[1] {
	case kindAcquire:
		c = &Acquire{Step: s, Consumer: r.Text(), Deadline: r.Int(), Gaps: r.spans(), Spans: r.spans()}
	case kindSettle:
		c = &Settle{Step: s, Changes: r.changes()}
	case kindAdmit:
		c = &Admit{Step: s, End: r.offset(), Records: r.admitted()}
	case kindPromote:
		c = &Promote{Step: s, Records: r.promoted(), Stale: r.stale()}
	case kindTrim:
		c = &Trim{Step: s, Start: r.offset(), Report: r.Bool()}
	case kindReset:
		c = &Reset{Step: s, Start: r.offset()}
	case kindConfirm:
		cmd := &Confirm{Step: s, IDs: make([]uint64, r.Count(1))}
		for i := range cmd.IDs {
			cmd.IDs[i] = r.Uint()
		}
		c = cmd
	default:
		return nil, base.Errorf(base.CodeCorruption, "queue command has unknown kind %d", b[1])
	}
	if !r.Whole() {
		return nil, base.Errorf(base.CodeCorruption, "damaged queue command of kind %d, %d bytes", b[1], len(b))
	}
	return c, nil
}

// reader takes fields off a slice; see varint.Reader for what damage does.
type reader struct{ varint.Reader }

func newReader(b []byte) *reader { return &reader{varint.Reader{B: b}} }

// below reads a byte that is less than limit.
func (r *reader) below(limit byte) byte {
	v := r.Byte()
	if v >= limit {
		r.Fail()
		return 0
	}
	return v
}

func (r *reader) offset() int64 {
	v := r.Int()
	if v < 0 {
		r.Fail()
	}
	return v
}

func (r *reader) span() Span {
	s := Span{First: r.offset()}
	s.Last = s.First + int64(r.Uint())
	if s.Last < s.First {
		r.Fail()
	}
	return s
}

func (r *reader) spans() []Span {
	n := r.Count(spanSize)
	if n == 0 {
		return nil
	}
	out := make([]Span, n)
	for i := range out {
		out[i] = r.span()
	}
	return out
}

func (r *reader) changes() []Change {
	out := make([]Change, r.Count(changeSize))
	for i := range out {
		out[i] = Change{Span: r.span(), Op: Op(r.below(ops)), Until: r.Int(), Cause: Cause(r.below(causes)), Report: r.Bool()}
	}
	return out
}

func (r *reader) meta() Meta {
	return Meta{Offset: r.offset(), Lane: r.Text(), Priority: r.Byte(), NotBefore: r.Int(), Expires: r.Int()}
}

func (r *reader) admitted() []Admitted {
	out := make([]Admitted, r.Count(metaSize+1))
	for i := range out {
		out[i] = Admitted{Meta: r.meta(), Later: r.Bool()}
	}
	return out
}

func (r *reader) promoted() []Promoted {
	out := make([]Promoted, r.Count(metaSize+1))
	for i := range out {
		out[i] = Promoted{Meta: r.meta(), Deliveries: r.Int32()}
	}
	return out
}

func (r *reader) stale() []LaterKey {
	out := make([]LaterKey, r.Count(2))
	for i := range out {
		out[i] = LaterKey{r.Int(), r.Int()}
	}
	return out
}
