// Command matrix drives the interop tests: it lets every client write, lets every other client read it back, checks consumer
// groups and Kafka's command line tools, and prints what passed. run.sh builds and installs what it needs and calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"godwit/interop/canon"
	"godwit/interop/installed"
)

// session is one run against one broker.
type session struct {
	broker  string
	prefix  string // of all names that the run makes in the broker
	jobs    int
	places  installed.Places
	restart string // program that kills the broker and starts it again; empty for a broker that is not ours
	clients []client
	report  *report
	kafka   *kgo.Client
	admin   *kadm.Client
	topics  []string   // to delete at the end
	written []*written // what the part write left to read
}

// parts of a run, in order. read needs what write left behind.
var parts = []string{"write", "restart", "read", "groups", "acks", "old", "tools", "franzgo"}

func main() {
	broker := flag.String("broker", "", "address of the broker, host:port")
	source := flag.String("source", "interop", "the interop folder of the repository")
	built := flag.String("built", ".cache/interop", "the folder that run.sh prepared")
	only := flag.String("clients", "", "comma-separated clients to run (default all)")
	run := flag.String("parts", strings.Join(parts, ","), "comma-separated parts to run")
	restart := flag.String("restart", "", "program that kills the broker with SIGKILL and starts it again (default: it is left alone)")
	log := flag.String("log", "", "file with the output of the broker, to be searched for complaints")
	keep := flag.Bool("keep", false, "keep the topics for a look at them")
	flag.Parse()
	places, err := installed.Find(*source, *built)
	if err != nil {
		fatal("%v", err)
	}
	s := newSession(*broker, places, *only)
	s.restart = *restart
	ctx := context.Background()
	start := time.Now()
	for _, part := range strings.Split(*run, ",") {
		s.part(ctx, part)
	}
	if !*keep {
		s.cleanUp(ctx)
	}
	s.kafka.Close()
	if *log != "" {
		s.report.add(check{group: "broker", name: "has nothing to complain of in its log", err: complaints(*log)})
	}
	failed := s.report.print(os.Stdout, s.clients, time.Since(start))
	if failed > 0 {
		os.Exit(1)
	}
}

func newSession(broker string, p installed.Places, only string) *session {
	s := &session{
		broker: broker,
		prefix: fmt.Sprintf("interop-%d", time.Now().UnixMilli()),
		jobs:   max(2, runtime.NumCPU()),
		places: p,
		report: newReport(os.Stderr),
	}
	for _, c := range clients(p) {
		if only == "" || slices.Contains(strings.Split(only, ","), c.name) {
			s.clients = append(s.clients, c)
		}
	}
	if len(s.clients) == 0 {
		fatal("no client is named %q", only)
	}
	var err error
	s.kafka, err = kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		fatal("broker %s: %v", broker, err)
	}
	s.admin = kadm.NewClient(s.kafka)
	s.admin.SetTimeoutMillis(30_000)
	return s
}

func (s *session) part(ctx context.Context, name string) {
	run, ok := map[string]func(context.Context){
		"write": s.fill, "restart": s.crash, "read": s.readAll, "groups": s.groups, "acks": s.acks, "old": s.oldProducers,
		"tools": s.tools, "franzgo": s.franzgo,
	}[name]
	if !ok {
		fatal("no part is named %q (there are %s)", name, strings.Join(parts, ", "))
	}
	start := time.Now()
	run(ctx)
	fmt.Fprintf(os.Stderr, "%s: %.1f s\n", name, time.Since(start).Seconds())
}

// crash kills the broker and starts it again, if it is ours: what it acknowledged has to be there afterwards.
func (s *session) crash(ctx context.Context) {
	if s.restart == "" {
		return
	}
	_, err := run(ctx, []string{s.restart}, nil)
	s.report.add(check{group: "restart", name: "kill -9 and start", err: err})
}

func (s *session) client(name string) *client {
	for i := range s.clients {
		if s.clients[i].name == name {
			return &s.clients[i]
		}
	}
	fatal("no client is named %q", name)
	return nil
}

func (s *session) topic(name string) string { return s.prefix + "-" + name }

// createTopics makes topics that keep records of any age: the canonical timestamps are years old.
func (s *session) createTopics(ctx context.Context, names ...string) error {
	forever := "-1"
	config := map[string]*string{"retention.ms": &forever}
	made, err := s.admin.CreateTopics(ctx, canon.Partitions, 1, config, names...)
	if err != nil {
		return err
	}
	s.topics = append(s.topics, names...)
	return made.Error()
}

func (s *session) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	gone, err := s.admin.DeleteTopics(ctx, s.topics...)
	if err == nil {
		err = gone.Error()
	}
	s.report.add(check{group: "clean up", name: "delete the topics of the run", err: err})
	s.report.add(check{group: "clean up", name: "delete the groups of the run", err: s.deleteGroups(ctx)})
}

func (s *session) deleteGroups(ctx context.Context) error {
	all, err := s.admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	var ours []string
	for _, g := range all.Groups() {
		if strings.HasPrefix(g, s.prefix) {
			ours = append(ours, g)
		}
	}
	gone, err := s.admin.DeleteGroups(ctx, ours...)
	if err != nil {
		return err
	}
	return gone.Error()
}

// complaint is a line in a broker's log that no client should be able to cause.
var complaint = regexp.MustCompile(`(?m)^.*(level=ERROR|panic| failed).*$`)

func complaints(path string) error {
	log, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if found := complaint.FindAll(log, -1); len(found) > 0 {
		return fmt.Errorf("%d lines, the first: %s", len(found), found[0])
	}
	return nil
}

func fatal(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "interop: "+format+"\n", args...)
	os.Exit(2)
}
