package cli

import (
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress is a bar on the terminal; nothing if there is none, or little to read.
type progress struct {
	p     *mpb.Progress
	bar   *mpb.Bar
	total int64
}

// longRead is from how many offsets on progress is shown.
const longRead = 100_000

// progress shows how far r is, where the records do not go to the same terminal.
func (c *consumeCmd) progress(e *env, r *reader) *progress {
	total := int64(0)
	if !c.Follow && r.left < 0 && terminal(e.err) && !terminal(e.out) {
		total = r.remaining()
	}
	if total < longRead {
		return &progress{}
	}
	p := mpb.New(mpb.WithOutput(e.err), mpb.WithWidth(48))
	bar := p.AddBar(total, mpb.PrependDecorators(decor.CountersNoUnit("%d / %d offsets")),
		mpb.AppendDecorators(decor.Percentage(), decor.Name(" "), decor.AverageETA(decor.ET_STYLE_GO)))
	return &progress{p, bar, total}
}

func (p *progress) show(r *reader) {
	if p.bar != nil {
		p.bar.SetCurrent(p.total - r.remaining())
	}
}

func (p *progress) stop() {
	if p.bar != nil {
		p.bar.Abort(false)
		p.p.Wait()
	}
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
