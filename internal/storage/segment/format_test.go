package segment

import (
	"bytes"
	"encoding/hex"
	"testing"

	"godwit/internal/base"
)

// The bytes below are the formats of version 1, as docs/formats.md describes them. They change with the
// version only.
const (
	goldenHeader = "474f445749545347010001000700000044332211060000000010000000000000" +
		"0300000000000000e80300000000000000000000000000000000000093e171db"
	goldenSeal = "47575345414c303100200000082000005800000001000000efbeadde44332211" +
		"000000000000000000000000000000000000000000000000000000004e6c1912"
)

func testHeader() Header {
	return Header{Kind: KindWAL, Number: 7, Salt: 0x11223344, PrevFile: 6, PrevEnd: 4096, Term: 3, Created: 1000}
}

func TestHeaderGolden(t *testing.T) {
	h := testHeader()
	b := h.Encode()
	if got := hex.EncodeToString(b); got != goldenHeader {
		t.Errorf("header\n %s, want\n %s", got, goldenHeader)
	}
	back, err := DecodeHeader(b)
	if err != nil || back != h {
		t.Errorf("decoded %+v, %v", back, err)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if _, err := DecodeHeader(bad); err == nil {
			t.Errorf("a flipped bit in byte %d was accepted", i)
		}
	}
}

func TestNewerHeaderIsRefused(t *testing.T) {
	h := testHeader()
	b := h.Encode()
	b[8] = Version + 1
	resum(b)
	if _, err := DecodeHeader(b); err == nil || base.CodeOf(err) == base.CodeCorruption {
		t.Errorf("a newer format: %v, want an error that is not corruption", err)
	}
}

func TestSealGolden(t *testing.T) {
	s := seal{dataEnd: 0x2000, footerPos: 0x2008, footerLen: 88, logs: 1, footerCRC: 0xdeadbeef}
	b := s.encode(0x11223344)
	if got := hex.EncodeToString(b); got != goldenSeal {
		t.Errorf("seal\n %s, want\n %s", got, goldenSeal)
	}
	if back, ok := decodeSeal(b, 0x11223344); !ok || back != s {
		t.Errorf("decoded %+v, %v", back, ok)
	}
	if _, ok := decodeSeal(b, 0x11223345); ok {
		t.Error("the seal of another file was accepted")
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if _, ok := decodeSeal(bad, 0x11223344); ok {
			t.Errorf("a flipped bit in byte %d was accepted", i)
		}
	}
}

func testFrame() (*Frame, [][]byte) {
	return &Frame{Kind: FrameEntry, Shard: 5, Index: 9, Term: 3, Commit: 8, Vote: 1, Synced: base.At(7, 4096), Time: 1234,
		Extents: []LogExtent{{Log: 11, Base: 100, Last: 102, MaxTimestamp: 77, Len: 4}, {Log: 12, Base: 0, Last: 0, MaxTimestamp: -1, Len: 3}},
		Command: []byte("cmd")}, [][]byte{[]byte("abcd"), []byte("xyz")}
}

const goldenFrame = "cccd9e7ba2000000001000000101010005000000020000000900000000000000" +
	"030000000000000008000000000000000010000007000000d204000000000000" +
	"0300000000000000"

func encodeFrame(f *Frame, salt, offset uint32, payload [][]byte) []byte {
	b := f.AppendHead(nil, salt, offset, payload)
	for _, p := range payload {
		b = append(b, p...)
	}
	return b
}

func TestFrameRoundTrip(t *testing.T) {
	f, payload := testFrame()
	b := encodeFrame(f, 0x11223344, 4096, payload)
	if f.HeadSize()+7 != len(b) {
		t.Errorf("head of %d bytes, frame of %d", f.HeadSize(), len(b))
	}
	got, ok := DecodeFrame(append(bytes.Clone(b), 1, 2, 3), 0x11223344, 4096)
	if !ok || got.Shard != 5 || got.Index != 9 || got.Term != 3 || got.Commit != 8 || got.Vote != 1 || got.Synced != base.At(7, 4096) ||
		got.Time != 1234 || string(got.Command) != "cmd" || string(got.Payload) != "abcdxyz" || int(got.Size) != len(b) ||
		len(got.Extents) != 2 || got.Extents[0] != f.Extents[0] || got.Extents[1] != f.Extents[1] {
		t.Errorf("decoded %+v, %v", got, ok)
	}
	if _, ok := DecodeFrame(b, 0x11223345, 4096); ok {
		t.Error("a frame of a file with another salt was accepted")
	}
	if _, ok := DecodeFrame(b, 0x11223344, 4104); ok {
		t.Error("a frame at another offset was accepted")
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if _, ok := DecodeFrame(bad, 0x11223344, 4096); ok {
			t.Errorf("a flipped bit in byte %d was accepted", i)
		}
	}
	for n := range b {
		if _, ok := DecodeFrame(b[:n], 0x11223344, 4096); ok {
			t.Errorf("%d of %d bytes were accepted", n, len(b))
		}
	}
}

func TestFrameGolden(t *testing.T) {
	f, payload := testFrame()
	b := encodeFrame(f, 0x11223344, 4096, payload)
	if got := hex.EncodeToString(b[:FrameHeader]); got != goldenFrame {
		t.Errorf("frame header\n %s, want\n %s", got, goldenFrame)
	}
}

func FuzzFrame(f *testing.F) {
	fr, payload := testFrame()
	f.Add(encodeFrame(fr, 1, 0, payload))
	mark := &Frame{Kind: FrameMark}
	f.Add(encodeFrame(mark, 1, 0, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		resumFrame(b)
		got, ok := DecodeFrame(b, 1, 0)
		if !ok {
			return
		}
		n := 0
		for _, e := range got.Extents {
			n += int(e.Len)
		}
		if n != len(got.Payload) || got.HeadSize()+n != int(got.Size) {
			t.Fatalf("extents of %d bytes, payload of %d, frame of %d", n, len(got.Payload), got.Size)
		}
	})
}

func FuzzFooter(f *testing.F) {
	f.Add(encodeFooter([]LogFooter{{Log: 3, Base: 0, Last: 9, Bytes: 100, Count: 1}}, []Extent{{Base: 0, Last: 9, Pos: 4096, Len: 100}}), uint32(1))
	f.Fuzz(func(t *testing.T, b []byte, logs uint32) {
		got, err := decodeLogs(b, logs)
		if err != nil {
			return
		}
		extents := (len(b) - len(got)*footerLogSize) / extentSize
		for _, l := range got {
			if int(l.First)+int(l.Count) > extents {
				t.Fatalf("log %d has extents %d+%d of %d", l.Log, l.First, l.Count, extents)
			}
		}
	})
}

func FuzzHeader(f *testing.F) {
	h := testHeader()
	f.Add(h.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= HeaderSize {
			resum(b)
		}
		if h, err := DecodeHeader(b); err == nil && !bytes.Equal(h.Encode()[:28], b[:28]) && b[8] == Version && b[9] == 0 && b[11] == 0 {
			t.Fatalf("%x decodes to %+v, which encodes differently", b[:HeaderSize], h)
		}
	})
}
