// Package kafka drives brokers that speak Kafka's protocol with franz-go.
package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"godwit/internal/bench/driver"
)

// kafka is a driver.
type kafka struct {
	o        driver.Options
	settings settings
	client   *client      // for administration
	admin    *kadm.Client // on client

	members atomic.Int64 // of share groups, so far
	atomics atomic.Int64 // producers and transformers with transactions, so far

	mu      sync.Mutex
	clients map[*client]struct{} // guarded by mu; of consumers and producers that were not closed yet
}

// New connects to kafka://HOST:PORT[,HOST:PORT][?SETTINGS], see readSettings. A destination is a topic; a durable or
// shared subscription is a consumer group, or a share group if it acknowledges each message; any other reads
// all partitions without a group.
func New(ctx context.Context, o driver.Options) (driver.Driver, error) {
	set, err := readSettings(o.URL)
	if err != nil {
		return nil, err
	}
	d := &kafka{o: o, settings: set, clients: make(map[*client]struct{})}
	if d.client, err = d.connect(ctx, nil); err != nil {
		return nil, err
	}
	d.admin = kadm.NewClient(d.client.Client)
	return d, nil
}

// Describe says which version of Kafka has the requests that the target answers to, and the cluster's ID.
func (d *kafka) Describe(ctx context.Context) (string, error) {
	versions, err := d.versions(ctx)
	if err != nil {
		return "", err
	}
	var guesses []string
	for _, v := range versions {
		if guess := v.VersionGuess(); !slices.Contains(guesses, guess) {
			guesses = append(guesses, guess)
		}
	}
	slices.Sort(guesses)
	meta, err := d.admin.BrokerMetadata(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Kafka protocol %s, cluster %s", strings.Join(guesses, ", "), meta.Cluster), nil
}

// versions are what the brokers answer to.
func (d *kafka) versions(ctx context.Context) (kadm.BrokersApiVersions, error) {
	versions, err := d.admin.ApiVersions(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		if v.Err != nil {
			return nil, fmt.Errorf("broker %d: %w", v.NodeID, v.Err)
		}
	}
	return versions, nil
}

// needShareGroups refuses brokers without share groups.
func (d *kafka) needShareGroups(ctx context.Context) error {
	versions, err := d.versions(ctx)
	if err != nil {
		return err
	}
	for _, v := range versions {
		for _, key := range []kmsg.Key{kmsg.ShareGroupHeartbeat, kmsg.ShareFetch} {
			if _, _, ok := v.KeyVersions(key.Int16()); !ok {
				return driver.Unsupported("the broker has no share groups (KIP-932): it does not answer to %s", key.Name())
			}
		}
	}
	return nil
}

func (d *kafka) Traits() driver.Traits {
	return driver.Traits{
		Acks: d.settings.acks != kgo.NoAck(), Retains: true, Replays: true, Commits: true, Atomic: d.settings.idempotent,
	}
}

// Close ends what was not closed as well.
func (d *kafka) Close() error {
	d.mu.Lock()
	left := make([]*client, 0, len(d.clients))
	for c := range d.clients {
		left = append(left, c)
	}
	d.mu.Unlock()
	for _, c := range left {
		c.abandon()
	}
	d.client.abandon()
	return nil
}
