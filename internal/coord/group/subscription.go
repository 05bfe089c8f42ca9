package group

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

// subscribedTopics reads the topic names of Kafka's ConsumerProtocolSubscription, in the order in which they stand there.
func subscribedTopics(b []byte) (names []string, ok bool) {
	f := &fields{b: b}
	_, names = f.subscription()
	return names, !f.bad
}
