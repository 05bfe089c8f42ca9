package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// figures are what one round saw.
type figures struct {
	join    time.Duration // from the start of all members until each has its partitions
	more    time.Duration // from the start of one more member until all have theirs
	less    time.Duration // from the end of one member, likewise
	gapMore time.Duration // longest gap in a partition that did not move, while one came
	gapLess time.Duration // while one went
}

// rows are the figures as the table shows them.
var rows = []struct {
	name string
	of   func(*figures) time.Duration
}{
	{"all join", func(f *figures) time.Duration { return f.join }},
	{"one more joins", func(f *figures) time.Duration { return f.more }},
	{"longest gap meanwhile, partition not moved", func(f *figures) time.Duration { return f.gapMore }},
	{"one leaves", func(f *figures) time.Duration { return f.less }},
	{"longest gap meanwhile, partition not moved ", func(f *figures) time.Duration { return f.gapLess }},
}

func main() {
	members := flag.Int("members", 100, "members of the group")
	partitions := flag.Int("partitions", 200, "partitions of the topic")
	rounds := flag.Int("rounds", 3, "rounds; medians are shown")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, flag.Args(), *members, *partitions, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "groups:", err)
		os.Exit(1)
	}
}

// measure plays all rounds and prints the table.
func measure(ctx context.Context, targets []string, members, partitions, rounds int) error {
	if len(targets) == 0 {
		return fmt.Errorf("name a broker: NAME=HOST:PORT")
	}
	seen := map[string][]figures{}
	var names []string
	for round := range rounds {
		for _, protocol := range []string{"classic", "consumer"} {
			for _, target := range targets {
				name, addr, ok := strings.Cut(target, "=")
				if !ok {
					return fmt.Errorf("%q is not NAME=HOST:PORT", target)
				}
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
				f, err := play(ctx, addr, protocol == "consumer", members, partitions)
				if err != nil {
					return fmt.Errorf("round %d, %s, %s protocol: %w", round+1, name, protocol, err)
				}
				fmt.Fprintf(os.Stderr, "round %d, %s, %s: %+v\n", round+1, name, protocol, f)
				seen[protocol+name] = append(seen[protocol+name], f)
			}
		}
	}
	fmt.Printf("%d members, %d partitions, medians of %d rounds, seconds\n\n| protocol | | %s | ratio |\n|---|---|%s---|\n",
		members, partitions, rounds, strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for _, protocol := range []string{"classic", "consumer"} {
		for _, row := range rows {
			fmt.Printf("| %s | %s |", protocol, strings.TrimSpace(row.name))
			var of []float64
			for _, name := range names {
				of = append(of, median(seen[protocol+name], row.of).Seconds())
				fmt.Printf(" %.2f |", of[len(of)-1])
			}
			fmt.Printf(" %.2f |\n", of[0]/of[len(of)-1])
		}
	}
	return nil
}

func median(list []figures, of func(*figures) time.Duration) time.Duration {
	var values []time.Duration
	for i := range list {
		values = append(values, of(&list[i]))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
