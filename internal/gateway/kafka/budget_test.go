package kafka

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStalledProducersLeaveRoomForOthers: produce requests that are announced and do not arrive take all the memory there
// is for them; who fetches, or says that it is alive, is answered nevertheless.
func TestStalledProducersLeaveRoomForOthers(t *testing.T) {
	w := newWire(t, func(o *Options) { o.MaxRequestBytes, o.MaxControlBytes, o.MaxInFlightBytes = 1<<20, 1<<16, 1<<20 })
	head := binary.BigEndian.AppendUint32(nil, 1<<20)
	head = append(head, 0, byte(kmsg.Produce), 0, 9, 0, 0, 0, 1)
	for range 3 {
		w.dial().raw(head)
	}
	eventually(t, "produce requests being read", func() bool { return w.s.produces.Used() >= 1<<20 })
	p := w.dial()
	if r := call[*kmsg.MetadataResponse](p, 12, kmsg.NewPtrMetadataRequest()); len(r.Brokers) != 1 {
		t.Errorf("%d brokers", len(r.Brokers))
	}
}
