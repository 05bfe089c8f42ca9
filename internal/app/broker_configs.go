package app

import (
	"strconv"
	"strings"

	"godwit/internal/gateway/kafka"
	"godwit/internal/groupconf"
	"godwit/internal/settings"
	"godwit/internal/topicconf"
)

// brokerConfigs shows the settings to Kafka's admin clients, by the names that Kafka has for them. Godwit's own are
// listed under `godwit.` and the name of the setting. web is where the HTTP gateway listens; nil: nowhere.
func brokerConfigs(s *settings.Settings, web *string) []kafka.ConfigEntry {
	var out []kafka.ConfigEntry
	add := func(name string, t topicconf.Type, value, def, doc string) {
		out = append(out, kafka.ConfigEntry{Name: name, Type: t, Value: value, Default: def, Doc: doc, Set: value != def})
	}
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	add("auto.create.topics.enable", topicconf.Boolean, strconv.FormatBool(s.AutoCreateTopics), "true", "Whether a topic is made when a client asks for one that does not exist.")
	add("broker.id", topicconf.Int, "1", "1", "This broker's ID.")
	add("default.replication.factor", topicconf.Int, "1", "1", "Replicas of a topic whose creator does not say.")
	add("listeners", topicconf.String, "PLAINTEXT://"+s.Kafka, "PLAINTEXT://127.0.0.1:9092", "Where Kafka clients connect.")
	add("log.dirs", topicconf.String, s.Data, "./data", "The data directory.")
	add("max.connections", topicconf.Int, strconv.Itoa(s.MaxConnections), "20000", "Connections at a time.")
	add("num.partitions", topicconf.Int, strconv.Itoa(s.NumPartitions), "1", "Partitions of a topic whose creator does not say.")
	add("socket.request.max.bytes", topicconf.Int, num(int64(s.MaxRequestBytes)), "104857600", "Size of one request.")
	add("godwit.durability", topicconf.String, s.Durability, "sync", "When a write is acknowledged: `sync`, when it is on disk; `os`, when the operating system has it.")
	at := "off"
	if web != nil {
		at = *web
	}
	add("godwit.http", topicconf.String, at, "127.0.0.1:8080", "Where HTTP is served: metrics, health, and how far groups are behind.")
	add("godwit.wal-file-size", topicconf.Long, num(int64(s.WALFileSize)), num(256<<20), "Size of one file of the log, bytes.")
	for _, d := range groupconf.BrokerDefs() {
		v, set := s.GroupSettings[d.Name]
		if !set {
			v = d.Default
		}
		if set || !d.Internal {
			add(d.Name, d.Type, v, d.Default, d.Doc)
		}
	}
	for _, d := range topicconf.Defs() {
		if len(d.Synonyms) == 0 || strings.HasPrefix(d.Synonyms[0], "compression.gzip") {
			continue
		}
		v, set := s.TopicDefaults[d.Name]
		if !set {
			v = d.Default
		}
		add(d.Synonyms[0], d.Type, v, d.Default, d.Doc)
	}
	return out
}
