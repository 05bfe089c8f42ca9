package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"godwit/internal/engine"
	"godwit/internal/vfs"
)

// Fsck checks the data of a stopped node and reports to out; ok says that nothing is damaged.
func Fsck(ctx context.Context, dir string, out io.Writer, asJSON bool) (ok bool, err error) {
	found := 0
	enc := json.NewEncoder(out)
	sum, err := engine.Check(ctx, vfs.Default, dir, func(f engine.Finding) {
		found++
		switch {
		case asJSON:
			enc.Encode(f)
		case f.Offset < 0:
			fmt.Fprintf(out, "%s: %s\n", f.File, f.What)
		default:
			fmt.Fprintf(out, "%s, byte %d: %s\n", f.File, f.Offset, f.What)
		}
	})
	if err != nil {
		return false, err
	}
	if asJSON {
		return found == 0, enc.Encode(struct {
			engine.Checked
			Findings int `json:"findings"`
		}{sum, found})
	}
	fmt.Fprintf(out, "%d file(s), %d frame(s), %d batch(es) with %d record(s) in %d partition(s): %d finding(s)\n", sum.Files, sum.Frames, sum.Batches, sum.Records, sum.Logs, found)
	if sum.Tail > 0 {
		fmt.Fprintf(out, "%d byte(s) behind the end of the log belong to writes that were never acknowledged\n", sum.Tail)
	}
	return found == 0, nil
}
