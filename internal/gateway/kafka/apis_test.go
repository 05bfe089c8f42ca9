package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestVersionsAreThoseOfKafka44 holds the list against what Kafka 4.4 announces. The lowest versions are those that
// KIP-896 left.
func TestVersionsAreThoseOfKafka44(t *testing.T) {
	lowest := map[kmsg.Key]int16{kmsg.Produce: 3, kmsg.Fetch: 4, kmsg.ListOffsets: 1, kmsg.OffsetCommit: 2, kmsg.OffsetFetch: 1,
		kmsg.CreateTopics: 2, kmsg.DeleteTopics: 1, kmsg.OffsetForLeaderEpoch: 2, kmsg.DescribeACLs: 1, kmsg.DescribeConfigs: 1,
		kmsg.DescribeLogDirs: 1, kmsg.ShareGroupHeartbeat: 1, kmsg.ShareGroupDescribe: 1,
		kmsg.ShareFetch: 1, kmsg.ShareAcknowledge: 1, kmsg.WriteTxnMarkers: 1}
	kafka := kversion.V4_4_0()
	seen := map[kmsg.Key]bool{}
	for _, a := range listAPIs() {
		if seen[a.key] {
			t.Errorf("%s is listed twice", a.key.Name())
		}
		seen[a.key] = true
		if highest, ok := kafka.LookupMaxKeyVersion(int16(a.key)); !ok || a.max != highest {
			t.Errorf("%s is served up to version %d, by Kafka up to %d", a.key.Name(), a.max, highest)
		}
		if a.min != lowest[a.key] {
			t.Errorf("%s is served from version %d on, by Kafka from %d", a.key.Name(), a.min, lowest[a.key])
		}
		if req := a.key.Request(); req.MaxVersion() < a.max {
			t.Errorf("%s version %d cannot be decoded", a.key.Name(), a.max)
		}
		if announced := apiRange(&a).MinVersion; announced != a.min && (a.key != kmsg.Produce || announced != 0) {
			t.Errorf("%s is announced from version %d on", a.key.Name(), announced)
		}
	}
}
