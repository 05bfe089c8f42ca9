package run

import (
	"context"
	"fmt"

	"godwit/internal/bench/driver"
	"godwit/internal/bench/driver/amqp"
	"godwit/internal/bench/driver/kafka"
	"godwit/internal/bench/driver/mqtt"
	"godwit/internal/bench/driver/nats"
	"godwit/internal/bench/target"
)

// openDriver makes the driver of a target's protocol.
func openDriver(ctx context.Context, t *target.Target, o driver.Options) (driver.Driver, error) {
	switch t.Protocol {
	case "kafka":
		return kafka.New(ctx, o)
	case "amqp":
		return amqp.New(ctx, o)
	case "mqtt":
		return mqtt.New(ctx, o)
	case "nats":
		return nats.New(ctx, o)
	case "jetstream":
		return nats.NewJetStream(ctx, o)
	}
	return nil, fmt.Errorf("no client for protocol %q", t.Protocol)
}
