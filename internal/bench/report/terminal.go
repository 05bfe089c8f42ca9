package report

import (
	"bufio"
	"io"
	"strings"
	"unicode/utf8"

	"godwit/internal/bench/result"
)

// width is how many columns a terminal is taken to have.
const width = 100

// Terminal writes tables for a terminal of 100 columns. What needs more room than that (produced and consumed where they tell no more
// than the throughput, ranges of resources and of rare percentiles, configurations, commands) is in the other forms.
func Terminal(w io.Writer, r *result.Run, color bool) error {
	d := newDocument(r)
	t := &terminal{w: bufio.NewWriter(w), color: color}
	t.say(bold, d.Title)
	t.say(faint, d.Lead)
	t.gap()
	for _, v := range d.Verdicts {
		style := ""
		if v.Loud {
			style = red
		}
		t.wrap(style, "- ", v.Text)
	}
	if len(d.Targets) > 1 || d.Matrix != nil {
		t.table(d.Overview.Table, true)
	}
	for i := range d.Sections {
		t.section(&d.Sections[i])
	}
	t.table(d.Resources, true)
	t.table(d.Probe, true)
	for i := range d.Benefits {
		t.table(&d.Benefits[i], true)
	}
	if len(d.Notes) > 0 {
		t.gap()
		t.say(bold, "Notes")
		for _, n := range d.Notes {
			t.wrap("", "- ", n)
		}
	}
	return t.w.Flush()
}

// Styles of terminals.
const (
	bold  = "\x1b[1m"
	faint = "\x1b[2m"
	red   = "\x1b[1;31m"
	green = "\x1b[32m"
	amber = "\x1b[33m"
	reset = "\x1b[0m"
)

// terminal writes styled lines; errors stay in w until it is flushed.
type terminal struct {
	w     *bufio.Writer
	color bool
}

func (t *terminal) gap() { t.w.WriteByte('\n') }

func (t *terminal) styled(style, s string) string {
	if !t.color || style == "" || s == "" {
		return s
	}
	return style + s + reset
}

func (t *terminal) say(style, s string) {
	t.w.WriteString(t.styled(style, s))
	t.gap()
}

// wrap writes a paragraph, its further lines below the text of the first.
func (t *terminal) wrap(style, lead, s string) {
	for i, l := range fold(s, width-len(lead)) {
		if i > 0 {
			lead = strings.Repeat(" ", len(lead))
		}
		t.w.WriteString(lead)
		t.say(style, l)
	}
}

// fold breaks text into lines of at most n runes, words longer than that included.
func fold(s string, n int) (lines []string) {
	n = max(n, 10)
	var now string
	for _, word := range strings.Fields(s) {
		for {
			free := n - utf8.RuneCountInString(now)
			if now != "" {
				free--
			}
			if utf8.RuneCountInString(word) <= free {
				break
			}
			if now != "" {
				lines, now = append(lines, now), ""
				continue
			}
			r := []rune(word)
			lines, word = append(lines, string(r[:n])), string(r[n:])
		}
		if now != "" {
			now += " "
		}
		now += word
	}
	return append(lines, now)
}

func (t *terminal) section(s *section) {
	t.gap()
	t.say(bold, s.Title+" ["+s.Name+"]")
	t.say(faint, s.Facts)
	for _, l := range s.Loud {
		t.wrap(red, "! ", l)
	}
	for i := range s.Tables {
		t.table(&s.Tables[i], false)
	}
}

// table writes a table, in several blocks if it is too wide.
func (t *terminal) table(b *table, title bool) {
	if b == nil || len(b.Rows) == 0 {
		return
	}
	t.gap()
	style := faint
	if title {
		style = bold
	}
	t.say(style, b.Caption)
	l := layout(b)
	for _, block := range l.blocks() {
		t.head(l, block)
		for i := range b.Rows {
			t.row(l, block, &b.Rows[i])
		}
	}
	for _, f := range b.Foot {
		t.wrap(faint, "  ", f)
	}
}

// laid is a table with the widths of its columns.
type laid struct {
	*table
	keys   int // columns that every block begins with: text up to the target's name
	widths []int
	shown  []int // columns, minor ones left out
}

func layout(b *table) *laid {
	l := &laid{table: b, widths: make([]int, len(b.Head))}
	for i, h := range b.Head {
		if !h.Minor {
			l.shown = append(l.shown, i)
		}
		if h.Left && i == l.keys && l.keys < 2 && !h.Wide {
			l.keys++
		}
		l.widths[i] = max(utf8.RuneCountInString(h.Title), utf8.RuneCountInString(h.Unit))
	}
	for _, r := range b.Rows {
		for i, c := range r.Cells {
			l.widths[i] = max(l.widths[i], utf8.RuneCountInString(l.text(i, c)))
		}
	}
	// What is left goes to the columns that can be broken into lines; the last takes the most.
	var wide []int
	free := width
	for _, i := range l.shown {
		if b.Head[i].Wide {
			wide = append(wide, i)
		} else {
			free -= l.widths[i] + gutter
		}
	}
	for n, i := range wide {
		share := max(free/(len(wide)-n)-gutter, 18)
		l.widths[i] = min(l.widths[i], share)
		free -= l.widths[i] + gutter
	}
	return l
}

const gutter = 2

// text is a cell as the terminal shows it.
func (l *laid) text(i int, c cell) string {
	if c.Low == "" || l.Head[i].Bare {
		return c.Text
	}
	return c.Text + " (" + c.Low + ".." + c.High + ")"
}

// blocks are the columns that fit beside each other, keys first in each.
func (l *laid) blocks() (blocks [][]int) {
	used := 0
	var now []int
	for _, i := range l.shown {
		w := l.widths[i] + gutter
		if used+w-gutter > width && len(now) > l.keys {
			blocks = append(blocks, now)
			now, used = nil, 0
			for k := range l.keys {
				now, used = append(now, k), used+l.widths[k]+gutter
			}
		}
		now, used = append(now, i), used+w
	}
	return append(blocks, now)
}

func (t *terminal) head(l *laid, block []int) {
	titles, units, some := make([]string, len(l.Head)), make([]string, len(l.Head)), false
	for _, i := range block {
		titles[i], units[i] = l.Head[i].Title, l.Head[i].Unit
		some = some || units[i] != ""
	}
	t.cells(l, block, titles, func(int) string { return faint })
	if some {
		t.cells(l, block, units, func(int) string { return faint })
	}
}

// cells writes one line.
func (t *terminal) cells(l *laid, block []int, texts []string, style func(i int) string) {
	var b strings.Builder
	for n, i := range block {
		if n > 0 {
			b.WriteString(strings.Repeat(" ", gutter))
		}
		pad := strings.Repeat(" ", max(0, l.widths[i]-utf8.RuneCountInString(texts[i])))
		s := t.styled(style(i), texts[i])
		switch {
		case !l.Head[i].Left:
			b.WriteString(pad + s)
		default:
			b.WriteString(s + pad)
		}
	}
	t.w.WriteString(strings.TrimRight(b.String(), " "))
	t.gap()
}

func (t *terminal) row(l *laid, block []int, r *row) {
	if r.Span != "" {
		t.span(l, block, r)
		return
	}
	folded := map[int][]string{}
	high := 1
	for _, i := range block {
		c := r.Cells[i]
		s := l.text(i, c)
		if i == 0 && c.Mark == dim && !r.Group {
			s = "" // the group's label stands in its first row
		}
		folded[i] = []string{s}
		if l.Head[i].Wide {
			folded[i] = fold(s, l.widths[i])
		}
		high = max(high, len(folded[i]))
	}
	for n := range high {
		texts := make([]string, len(l.Head))
		for _, i := range block {
			if n < len(folded[i]) {
				texts[i] = folded[i][n]
			}
		}
		t.cells(l, block, texts, func(i int) string { return styles[r.Cells[i].Mark] })
	}
}

// styles are the marks' styles.
var styles = [...]string{plain: "", dim: faint, better: green, worse: amber, loud: red}

// span writes a row that has a reason in place of figures, in the first block only.
func (t *terminal) span(l *laid, block []int, r *row) {
	if len(block) > l.keys && block[l.keys] != l.firstFigure() {
		return
	}
	keys := make([]string, len(l.Head))
	used := 0
	for i, c := range r.Cells {
		if keys[i] = c.Text; i == 0 && c.Mark == dim && !r.Group {
			keys[i] = ""
		}
		used += l.widths[i] + gutter
	}
	var b strings.Builder
	for i := range r.Cells {
		b.WriteString(keys[i] + strings.Repeat(" ", l.widths[i]-utf8.RuneCountInString(keys[i])+gutter))
	}
	style := faint
	if r.Failed {
		style = red
	}
	for n, s := range fold(r.Span, width-used) {
		if n > 0 {
			b.WriteString(strings.Repeat(" ", used))
		}
		b.WriteString(t.styled(style, s) + "\n")
	}
	t.w.WriteString(b.String())
}

// firstFigure is the first column behind the keys that is shown.
func (l *laid) firstFigure() int {
	for _, i := range l.shown {
		if i >= l.keys {
			return i
		}
	}
	return -1
}
