package kafka

import (
	"bytes"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"godwit/internal/base"
	"godwit/internal/broker"
	"godwit/internal/partlog"
)

// memory is records in memory, in runs of run bytes; 0 means one run.
type memory struct {
	b        []byte
	run      int
	st       broker.LogState
	aborted  []partlog.Aborted
	released *int
}

func (m *memory) State() broker.LogState     { return m.st }
func (m *memory) Aborted() []partlog.Aborted { return m.aborted }
func (m *memory) Len() int                   { return len(m.b) }
func (m *memory) piece(i int) []byte {
	if m.run == 0 {
		return m.b
	}
	return m.b[i*m.run : min((i+1)*m.run, len(m.b))]
}
func (m *memory) Pieces() int {
	if m.run == 0 {
		return 1
	}
	return (len(m.b) + m.run - 1) / m.run
}
func (m *memory) Piece(i int) int { return len(m.piece(i)) }
func (m *memory) AppendPiece(i int, dst []byte) ([]byte, error) {
	return append(dst, m.piece(i)...), nil
}
func (m *memory) SendPiece(i int, c net.Conn) error {
	_, err := c.Write(m.piece(i))
	return err
}
func (m *memory) Release() {
	if m.released != nil {
		*m.released++
	}
}

var testHost = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9999}

// drawFetch draws a response of a version, as the handler could make it.
func drawFetch(t *rapid.T, version int16) *fetchReply {
	r := &fetchReply{rc: &request{version: version, server: &Server{}, local: testHost}, leader: 3,
		session: rapid.Int32().Draw(t, "session"), committed: rapid.Bool().Draw(t, "committed")}
	if version >= 7 && rapid.IntRange(0, 9).Draw(t, "failed") == 0 {
		r.code = kerr.FetchSessionIDNotFound.Code
		return r
	}
	topics := rapid.IntRange(0, 4).Draw(t, "topics")
	for k := range topics {
		key := partKey{topic: rapid.StringMatching("[a-z]{0,20}").Draw(t, "topic")}
		if version >= 13 {
			key = partKey{id: base.StreamID{byte(k), 1}}
		}
		for range rapid.SampledFrom([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 130}).Draw(t, "partitions") {
			r.parts = append(r.parts, drawPart(t, key))
		}
	}
	return r
}

func drawPart(t *rapid.T, key partKey) fetchResult {
	key.index = rapid.Int32().Draw(t, "index")
	p := fetchResult{key: key, partResult: partResult{hw: rapid.Int64().Draw(t, "hw"), start: rapid.Int64().Draw(t, "start"), stable: rapid.Int64().Draw(t, "stable")}}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		p.code, p.epoch = kerr.FencedLeaderEpoch.Code, rapid.Int32().Draw(t, "epoch")
	case 1:
		p.code = kerr.UnknownTopicOrPartition.Code
		p.absent = true
	case 2:
		p.diverged, p.divergent = true, epochEnd{rapid.Int32Min(0).Draw(t, "epoch"), rapid.Int64Min(0).Draw(t, "end")}
	case 3, 4:
		size := rapid.SampledFrom([]int{1, 61, 126, 127, 128, 1000, 16382, 16383, copyBelow, gatherSize + 1, 300_000}).Draw(t, "size")
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i / 7)
		}
		run := rapid.SampledFrom([]int{0, size/40 + 1, copyBelow - 1, copyBelow}).Draw(t, "run")
		p.records, p.len = &memory{b: b, run: run}, len(b)
		for range rapid.SampledFrom([]int{0, 1, 130}).Draw(t, "aborted") {
			p.aborted = append(p.aborted, partlog.Aborted{ProducerID: rapid.Int64().Draw(t, "producer"), First: rapid.Int64().Draw(t, "first")})
		}
	}
	return p
}

// wantFetch is what kmsg should decode.
func wantFetch(r *fetchReply) *kmsg.FetchResponse {
	version := r.rc.version
	w := kmsg.NewPtrFetchResponse()
	w.Version = version
	if version >= 7 {
		w.ErrorCode, w.SessionID = r.code, r.session
	}
	var last *partKey
	for i := range r.parts {
		p := &r.parts[i]
		if last == nil || last.topic != p.key.topic || last.id != p.key.id {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = p.key.topic, p.key.id
			w.Topics = append(w.Topics, topic)
			last = &p.key
		}
		k := kmsg.NewFetchResponseTopicPartition()
		k.Partition, k.ErrorCode, k.HighWatermark, k.LastStableOffset = p.key.index, p.code, p.hw, p.stable
		if version >= 5 {
			k.LogStartOffset = p.start
		}
		if r.committed || p.absent {
			k.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			for _, a := range p.aborted {
				k.AbortedTransactions = append(k.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: a.ProducerID, FirstOffset: a.First})
			}
		}
		k.RecordBatches = []byte{}
		if p.records != nil {
			k.RecordBatches = p.records.(*memory).b
		}
		if version >= 12 && p.diverged {
			k.DivergingEpoch.Epoch, k.DivergingEpoch.EndOffset = p.divergent.epoch, p.divergent.end
		}
		if version >= 16 && p.code == kerr.FencedLeaderEpoch.Code {
			k.CurrentLeader.LeaderID, k.CurrentLeader.LeaderEpoch = 3, p.epoch
			w.Brokers = []kmsg.FetchResponseBroker{{NodeID: 3, Host: "127.0.0.1", Port: 9999}}
		}
		topic := &w.Topics[len(w.Topics)-1]
		topic.Partitions = append(topic.Partitions, k)
	}
	return w
}

// spliced is an encoded response with its records.
func spliced(r recordsReply) []byte {
	frame, cuts := r.encode(nil)
	var out []byte
	at := 0
	for _, k := range cuts {
		out = append(append(out, frame[at:k.at]...), k.records.(*memory).b...)
		at = k.at
	}
	return append(out, frame[at:]...)
}

// TestFetchEncodingIsKmsgs: for every version, kmsg encodes what it decodes from our bytes to the same bytes, and
// decodes what was meant.
func TestFetchEncodingIsKmsgs(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		rapid.Check(t, func(t *rapid.T) {
			r := drawFetch(t, version)
			checkFetch(t, r)
		})
	}
}

func checkFetch(t rapid.TB, r *fetchReply) {
	got := spliced(r)
	version := r.rc.version
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(version)
	if err := resp.ReadFrom(got); err != nil {
		t.Fatalf("version %d: %v", version, err)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, got) {
		t.Fatalf("version %d: kmsg encodes\n%x\nwe encode\n%x", version, again, got)
	}
	if want := wantFetch(r).AppendTo(nil); !bytes.Equal(want, got) {
		t.Fatalf("version %d: want\n%x\ngot\n%x", version, want, got)
	}
}
