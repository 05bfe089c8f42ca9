//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// startProfile takes a CPU profile of a Godwit while a load runs, if --profile says where to; the
// broker's HTTP listener must serve /debug/pprof. The returned function waits for its end.
func (h *harness) startProfile(ctx context.Context, r *running, phase, kase string) (wait func()) {
	if h.opt.profile == "" || !strings.HasPrefix(r.name, godwitName) {
		return func() {}
	}
	name := strings.NewReplacer(" ", "-", ",", "").Replace(strings.Join([]string{phase, kase, r.name}, "-")) + ".pprof"
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The load tool's Java takes about a second to start.
		if sleep(ctx, 2*time.Second) != nil {
			return
		}
		if err := h.fetchProfile(ctx, r, filepath.Join(h.opt.profile, name)); err != nil && ctx.Err() == nil {
			h.logf("profile: %v", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// profileSeconds is the length of a profile; a load that ends before it has none.
const profileSeconds = 5

func (h *harness) fetchProfile(ctx context.Context, r *running, path string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address(r.ports[1]), profileSeconds)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
