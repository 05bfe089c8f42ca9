package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"godwit/interop/canon"
)

// places are the directories that run.sh prepared.
type places struct {
	source string // interop/ of the repository
	built  string // .cache/interop: installed packages and compiled programs
}

// client is one client library behind its program with the three commands of package canon.
type client struct {
	name    string
	version string
	command []string
	codecs  []string // in which it writes; it reads all
}

func (p places) clients() []client {
	node := filepath.Join(p.built, "node/node22")
	python := filepath.Join(p.built, "venv/bin/python")
	return []client{
		{"franz-go", "1.22.3", []string{filepath.Join(p.built, "franz")}, codecs},
		{"sarama", "1.61.1", []string{filepath.Join(p.built, "sarama")}, codecs},
		{"sarama-0.11", "1.61.1, told to speak Kafka 0.11", []string{"env", "SARAMA_VERSION=0.11.0.0", filepath.Join(p.built, "sarama")}, codecs[:4]},
		{"java", "kafka-clients 4.4.0", append(p.java("java"), "Client"), codecs},
		{"java-2.1", "kafka-clients 2.1.1", append(p.java("java-2.1"), "Client"), codecs},
		{"kcat", "1.7.1 of Debian (librdkafka 2.0.2)", []string{"python3", "-B", filepath.Join(p.source, "kcat/client.py")}, codecs},
		{"confluent", "confluent-kafka 2.16.1 (librdkafka)", []string{python, "-B", filepath.Join(p.source, "python/confluent.py")}, codecs},
		{"aiokafka", "0.14.0", []string{python, "-B", filepath.Join(p.source, "python/aio.py")}, codecs},
		{"kafka-python", "3.0.12", []string{python, "-B", filepath.Join(p.source, "python/kafkapython.py")}, codecs},
		{"kafkajs", "2.2.4", []string{node, filepath.Join(p.built, "node/kafkajs.mjs")}, codecs},
		{"platformatic", "@platformatic/kafka 2.12.1", []string{node, filepath.Join(p.built, "node/platformatic.mjs")}, codecs},
	}
}

// java is the command line of a JVM, made for short runs. dir has the compiled client and the class path.
func (p places) java(dir string) []string {
	dir = filepath.Join(p.built, dir)
	cp, err := os.ReadFile(filepath.Join(dir, "cp.txt"))
	if err != nil {
		fatal("no class path: %v (run.sh makes it)", err)
	}
	return []string{
		"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Dfile.encoding=UTF-8",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", dir + ":" + strings.TrimSpace(string(cp)),
	}
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
