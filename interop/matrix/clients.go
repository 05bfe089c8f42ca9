package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"time"

	"godwit/interop/canon"
	"godwit/interop/installed"
)

// client is one client library behind its program with the three commands of package canon.
type client struct {
	name    string
	version string
	command []string
	codecs  []string // in which it writes; it reads all
}

// clients are all clients of the matrix.
func clients(p installed.Places) []client {
	all := []client{
		{name: "franz-go", version: "1.22.3", codecs: codecs},
		{name: "sarama", version: "1.61.1", codecs: codecs},
		{name: "sarama-0.11", version: "1.61.1, told to speak Kafka 0.11", codecs: codecs[:4]},
		{name: "java", version: "kafka-clients 4.4.0", codecs: codecs},
		{name: "java-2.1", version: "kafka-clients 2.1.1", codecs: codecs},
		{name: "kcat", version: "1.7.1 of Debian (librdkafka 2.0.2)", codecs: codecs},
		{name: "confluent", version: "confluent-kafka 2.16.1 (librdkafka)", codecs: codecs},
		{name: "aiokafka", version: "0.14.0", codecs: codecs},
		{name: "kafka-python", version: "3.0.12", codecs: codecs},
		{name: "kafkajs", version: "2.2.4", codecs: codecs},
		{name: "platformatic", version: "@platformatic/kafka 2.12.1", codecs: codecs},
	}
	for i := range all {
		var err error
		if all[i].command, err = p.Client(all[i].name); err != nil {
			fatal("%v", err)
		}
	}
	return all
}

// processLimit is above the limit that every client program keeps by itself.
const processLimit = canon.Limit + 20*time.Second

// output of a finished process.
type output struct{ stdout, stderr []byte }

// run runs a process for processLimit at most. An error holds the end of what it said on standard error.
func run(ctx context.Context, command []string, stdin []byte) (output, error) {
	ctx, cancel := context.WithTimeout(ctx, processLimit)
	defer cancel()
	return runFor(ctx, command, stdin)
}

// runFor is run with the limit of ctx only.
func runFor(ctx context.Context, command []string, stdin []byte) (output, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, tail(stderr.Bytes(), 1500))
	}
	return output{stdout.Bytes(), stderr.Bytes()}, err
}

func tail(b []byte, n int) []byte {
	b = bytes.TrimSpace(b)
	if len(b) > n {
		b = append([]byte("…"), b[len(b)-n:]...)
	}
	return b
}

func (c *client) run(ctx context.Context, stdin []byte, args ...string) (output, error) {
	command := append(append([]string{}, c.command...), args...)
	return run(ctx, command, stdin)
}

// read runs a reading command and decodes what it printed, also when it failed half way.
func (c *client) read(ctx context.Context, args ...string) ([]canon.Record, error) {
	out, err := c.run(ctx, nil, args...)
	var got []canon.Record
	derr := canon.ReadLines(bytes.NewReader(out.stdout), func(r canon.Record) error {
		got = append(got, r)
		return nil
	})
	if err == nil {
		err = derr
	}
	return got, err
}
