package group

import "encoding/binary"

// subscribe works out what the members of a consumer group read, from what they offered for the chosen protocol. If
// one cannot be read, nothing is known.
func (g *group) subscribe() {
	g.topics = nil
	if g.protocolType != consumerType {
		return
	}
	topics := map[string]bool{}
	for _, m := range g.order {
		names, ok := subscribedTopics(m.metadata(g.protocol))
		if !ok {
			return
		}
		for _, name := range names {
			topics[name] = true
		}
	}
	g.topics = topics
}

// reads reports whether members may be reading the topic.
func (g *group) reads(topic string) bool {
	if g.topics == nil {
		return g.protocolType == consumerType
	}
	return g.topics[topic]
}

// subscribedTopics reads the topic names of Kafka's ConsumerProtocolSubscription: a version, which only
// appends fields, then an array of strings.
func subscribedTopics(b []byte) (names []string, ok bool) {
	if len(b) < 6 {
		return nil, false
	}
	version, n := int16(binary.BigEndian.Uint16(b)), int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	if version < 0 || n < 0 || int(n) > len(b)/2 {
		return nil, false
	}
	for range n {
		if len(b) < 2 {
			return nil, false
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		if b = b[2:]; size < 0 || size > len(b) {
			return nil, false
		}
		names = append(names, string(b[:size]))
		b = b[size:]
	}
	return names, true
}
