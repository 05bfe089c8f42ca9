package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

var testResult = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+)`)

// franzgo runs franz-go's own tests and counts each of them, subtests included, as a check.
func (s *session) franzgo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	command := []string{"env", "-u", "GODWIT_DIR", "BROKER=" + s.broker, filepath.Join(s.places.Source, "franzgo.sh"),
		"-test.timeout", "9m"}
	out, err := runFor(ctx, command, nil)
	log, lerr := os.ReadFile(filepath.Join(s.places.Built, "franzgo.log"))
	failed := false
	for _, m := range testResult.FindAllSubmatch(log, -1) {
		var terr error
		switch string(m[1]) {
		case "FAIL":
			terr = errors.New("fails: see franzgo.log")
		case "SKIP":
			terr = errors.New("skips itself: exclude it with a reason, or the broker lacks something")
		}
		failed = failed || terr != nil
		s.report.add(check{group: "franz-go's own", name: string(m[2]), err: terr})
	}
	if err = errors.Join(err, lerr); err != nil && !failed {
		s.report.add(check{group: "franz-go's own", name: "franzgo.sh",
			err: fmt.Errorf("%w: %s", err, tail(bytes.TrimSpace(out.stdout), 1500))})
	}
}
