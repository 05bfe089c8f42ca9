package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"godwit/internal/bench/result"
)

// Markdown writes the report as Markdown with tables, to stand in a folder beside or below docs/benchmark.md, such as
// docs/benchmarks.
func Markdown(w io.Writer, r *result.Run) error {
	d := newDocument(r)
	m := &markdown{w: bufio.NewWriter(w)}
	m.heading(1, d.Title)
	m.paragraph(escape(d.Lead))
	m.paragraph("Figures are medians over rounds, with the smallest and the largest in parentheses. What each figure means, how it is measured and how it can mislead: [godwit bench](../benchmark.md).")
	m.heading(2, "Summary")
	for _, v := range d.Verdicts {
		if v.Loud {
			m.item("**" + escape(v.Text) + "**")
		} else {
			m.item(escape(v.Text))
		}
	}
	m.gap()
	if len(d.Targets) > 1 || d.Matrix != nil {
		m.heading(2, "Overview")
		m.table(d.Overview.Table)
		m.table(d.Matrix)
	}
	for i := range d.Sections {
		m.section(&d.Sections[i])
	}
	m.titled("Resources", d.Resources)
	m.titled("Durability probe", d.Probe)
	for i := range d.Benefits {
		m.titled(d.Benefits[i].Caption, &d.Benefits[i])
	}
	m.heading(2, "Machine and configurations")
	m.table(d.Machine)
	m.table(d.Configs)
	if len(d.Commands) > 0 {
		m.heading(2, "Commands")
		m.paragraph("What repeats it, in order:")
		m.fenced("", strings.Join(d.Commands, "\n"))
	}
	if len(d.Notes) > 0 {
		m.heading(2, "Notes")
		for _, n := range d.Notes {
			m.item(escape(n))
		}
		m.gap()
	}
	m.titled("Figures", d.Figures)
	return m.w.Flush()
}

// markdown writes parts; errors stay in w until it is flushed.
type markdown struct {
	w       *bufio.Writer
	started bool
}

func (m *markdown) gap() { m.w.WriteByte('\n') }

func (m *markdown) heading(level int, s string) {
	if m.started {
		m.gap()
	}
	m.started = true
	fmt.Fprintf(m.w, "%s %s\n\n", strings.Repeat("#", level), escape(s))
}

func (m *markdown) paragraph(s string) {
	if s != "" {
		fmt.Fprintf(m.w, "%s\n\n", s)
	}
}

func (m *markdown) item(s string) { fmt.Fprintf(m.w, "- %s\n", s) }

// fenced writes text as it is, within a fence longer than any in it.
func (m *markdown) fenced(language, s string) {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	fmt.Fprintf(m.w, "%s%s\n%s\n%s\n", fence, language, s, fence)
}

func (m *markdown) titled(title string, t *table) {
	if t != nil && len(t.Rows) > 0 {
		m.heading(2, title)
		m.table(t)
	}
}

func (m *markdown) section(s *section) {
	m.heading(2, s.Title)
	if s.About != "" {
		m.paragraph(escape(s.About))
	}
	m.paragraph("`" + strings.ReplaceAll(s.Name, "`", "'") + "`: " + escape(s.Facts) + ".")
	for _, l := range s.Loud {
		m.item("**" + escape(l) + "**")
	}
	for _, l := range s.Quiet {
		m.item(escape(l))
	}
	if len(s.Loud)+len(s.Quiet) > 0 {
		m.gap()
	}
	for i := range s.Tables {
		t := &s.Tables[i]
		if t.Caption != "Figures" {
			m.paragraph("*" + escape(t.Caption) + "*")
		}
		m.table(t)
	}
	if s.Spec != "" {
		m.w.WriteString("<details><summary>Scenario</summary>\n\n")
		m.fenced("yaml", s.Spec)
		m.w.WriteString("\n</details>\n")
	}
}

func (m *markdown) table(t *table) {
	if t == nil || len(t.Rows) == 0 {
		return
	}
	for i, h := range t.Head {
		title := escape(h.Title)
		if h.Unit != "" {
			title += ", " + escape(h.Unit)
		}
		m.cell(i, title)
	}
	m.end()
	for i, h := range t.Head {
		if h.Left {
			m.cell(i, "---")
		} else {
			m.cell(i, "--:")
		}
	}
	m.end()
	for _, r := range t.Rows {
		for i := range t.Head {
			switch {
			case i < len(r.Cells):
				m.cell(i, cellMarkdown(&r.Cells[i]))
			case i == len(r.Cells) && r.Failed:
				m.cell(i, "**"+escape(r.Span)+"**")
			case i == len(r.Cells):
				m.cell(i, "*"+escape(r.Span)+"*")
			default:
				m.cell(i, "")
			}
		}
		m.end()
	}
	m.gap()
	for _, f := range t.Foot {
		m.paragraph("<sub>" + escape(f) + "</sub>")
	}
}

func (m *markdown) cell(i int, s string) {
	if i == 0 {
		m.w.WriteString("|")
	}
	fmt.Fprintf(m.w, " %s |", s)
}

func (m *markdown) end() { m.gap() }

func cellMarkdown(c *cell) string {
	s := escape(c.Text)
	if c.Low != "" {
		s += " (" + escape(c.Low) + " to " + escape(c.High) + ")"
	}
	if c.Mark == loud {
		s = "**" + s + "**"
	}
	return s
}

// special are the characters that Markdown, or the HTML in it, gives a meaning within a line.
var special = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;",
	"~", `\~`, "#", `\#`, "!", `\!`, "://", "&#58;//",
)

// escape makes text stand for itself: no markup, no links, nobody mentioned.
func escape(s string) string { return special.Replace(s) }
