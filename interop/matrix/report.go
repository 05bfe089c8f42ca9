package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// check is one thing that was tested. writer, reader and codec are set for cells of the matrix.
type check struct {
	group  string
	name   string
	writer string
	reader string
	codec  string
	err    error
}

// report collects checks from many goroutines. Failures are shown at once, on progress.
type report struct {
	mu       sync.Mutex
	checks   []check
	progress io.Writer
}

func newReport(progress io.Writer) *report { return &report{progress: progress} }

func (r *report) add(c check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks = append(r.checks, c)
	if c.err != nil {
		fmt.Fprintf(r.progress, "FAIL %s: %s: %v\n", c.group, c.name, c.err)
	}
}

// print writes the tables, the failures and the closing line, and returns the number of failures.
func (r *report) print(w io.Writer, clients []client, took time.Duration) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.printMatrix(w, clients)
	r.printGroups(w)
	fmt.Fprintln(w, "What a client itself cannot express, and what was therefore compared instead:")
	for _, l := range limits {
		fmt.Fprintf(w, "  %s, %s: %s\n", l.client, l.side, l.reason)
	}
	passed, failed := 0, 0
	for _, c := range r.checks {
		if c.err == nil {
			passed++
			continue
		}
		if failed == 0 {
			fmt.Fprintln(w, "\nFailures:")
		}
		failed++
		text, _, _ := strings.Cut(c.err.Error(), "\n")
		fmt.Fprintf(w, "  %s: %s: %.300s\n", c.group, c.name, text)
	}
	fmt.Fprintf(w, "\nin %.0f s\n%d passed, %d failed\n", took.Seconds(), passed, failed)
	return failed
}

// printMatrix has a row for each writer and a column for each reader; a cell says in how many codecs the records came back
// byte for byte, and names those in which they did not.
func (r *report) printMatrix(w io.Writer, clients []client) {
	type pair struct{ writer, reader string }
	good, all, bad := map[pair]int{}, map[pair]int{}, map[pair][]string{}
	for _, c := range r.checks {
		if c.reader == "" {
			continue
		}
		p := pair{c.writer, c.reader}
		all[p]++
		if c.err == nil {
			good[p]++
		} else {
			bad[p] = append(bad[p], c.codec)
		}
	}
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w, "\nClients:")
	for _, c := range clients {
		fmt.Fprintf(w, "  %-12s  %s\n", c.name, c.version)
	}
	fmt.Fprintln(w, "\nRecords read back byte for byte, codecs passed of", strings.Join(codecs, ", "), "(rows write, columns read):")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\t")
	for _, reader := range clients {
		fmt.Fprintf(t, "%s\t", reader.name)
	}
	fmt.Fprintln(t)
	for _, writer := range clients {
		fmt.Fprintf(t, "%s\t", writer.name)
		for _, reader := range clients {
			p := pair{writer.name, reader.name}
			fmt.Fprintf(t, "%d/%d", good[p], all[p])
			if len(bad[p]) > 0 {
				fmt.Fprintf(t, " not %s", strings.Join(bad[p], " "))
			}
			fmt.Fprint(t, "\t")
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	fmt.Fprintln(w)
}

// printGroups has a line for each kind of check.
func (r *report) printGroups(w io.Writer) {
	var order []string
	good, all := map[string]int{}, map[string]int{}
	for _, c := range r.checks {
		if all[c.group] == 0 {
			order = append(order, c.group)
		}
		all[c.group]++
		if c.err == nil {
			good[c.group]++
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "checks\tpassed\tfailed\t")
	for _, g := range order {
		fmt.Fprintf(t, "%s\t%d\t%d\t\n", g, good[g], all[g]-good[g])
	}
	t.Flush()
	fmt.Fprintln(w)
}
