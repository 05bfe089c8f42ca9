package app

import (
	"godwit/internal/coord/group"
	"godwit/internal/coord/share"
	"godwit/internal/coord/streams"
	"godwit/internal/engine"
	"godwit/internal/groupconf"
	"godwit/internal/invariants"
	"godwit/internal/settings"
)

// setGroupOptions gives the engine what the settings, which are valid, say of groups.
func setGroupOptions(e *engine.Options, s *settings.Settings) {
	b, err := groupconf.ResolveBroker(s.GroupSettings)
	invariants.Check(err == nil, "the settings of groups are not valid: %v", err)
	g := group.DefaultOptions()
	g.MinSession, g.MaxSession, g.InitialDelay = b.MinSession, b.MaxSession, b.InitialDelay
	g.MaxSize, g.MaxMetadata, g.Retention = b.MaxSize, b.MaxMetadata, b.Retention
	g.Consumer = group.ConsumerOptions{
		MaxSize: b.ConsumerMaxSize, Migration: group.Migration(b.Migration), Assignors: b.Assignors, Defaults: b.Defaults,
	}
	e.Groups, e.Shares, e.Streams = g, share.Options{MaxSize: b.ShareMaxSize, Defaults: b.Defaults}, streams.Options{MaxSize: b.StreamsMaxSize, Defaults: b.Defaults}
	e.DeadLetterPrefix = &b.DeadLetterPrefix
}
