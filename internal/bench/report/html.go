package report

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"godwit/internal/bench/result"
)

// The page's parts. uPlot draws the plots; its license is beside it and goes into every page.
//
//go:embed assets
var assets embed.FS

// HTML writes one page that needs nothing else: styles, scripts and data are in it, and its own policy forbids
// the network.
func HTML(w io.Writer, r *result.Run) error {
	d := newDocument(r)
	p := &page{document: d, palette: palette}
	if err := p.load(); err != nil {
		return err
	}
	var run bytes.Buffer
	if err := result.Save(&run, r); err != nil {
		return err
	}
	p.Run = run.Bytes()
	p.Data = p.plotData()
	text, err := asset("page.html.tmpl")
	if err != nil {
		return err
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"percent": func(x float64) template.CSS { return template.CSS(fmt.Sprintf("%.2f%%", x)) },
		"minus":   func(a, b float64) float64 { return a - b },
		"class":   mark.class,
		"hue":     func(target int) int { return target % palette },
		"left":    func(t *table, r *row) int { return len(t.Head) - len(r.Cells) },
		"subject": func(target int) *subject { return &d.Targets[target] },
		"in":      func(t *table, i int) column { return t.Head[i] },
		"dec":     func(i int) int { return i - 1 },
	}).Parse(text)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, p); err != nil {
		return err
	}
	_, err = w.Write(out.Bytes())
	return err
}

// palette is how many colours the style sheet has for targets; further ones begin anew with another dash.
const palette = 8

// page is what the template shows.
type page struct {
	*document
	palette int
	Styles  template.CSS
	Library template.JS
	Script  template.JS
	Data    plotData
	Run     json.RawMessage // the result file
}

// plotData is what the page's script gets.
type plotData struct {
	Targets []plotTarget `json:"targets"`
	Plots   []plot       `json:"plots"`
}

type plotTarget struct {
	Name  string `json:"name"`
	Grade string `json:"grade"`
	Hue   int    `json:"hue"`
	Dash  int    `json:"dash"`
}

func asset(name string) (string, error) {
	b, err := assets.ReadFile("assets/" + name)
	return string(b), err
}

// load takes the parts of the page that are the project's own or uPlot's, and so can be trusted.
func (p *page) load() error {
	var parts [5]string
	for i, name := range []string{"uPlot.min.css", "page.css", "uPlot.iife.min.js", "page.js", "uPlot.LICENSE"} {
		var err error
		if parts[i], err = asset(name); err != nil {
			return err
		}
	}
	p.Styles = template.CSS(parts[0] + "\n" + parts[1])
	p.Library = template.JS("/*!\n" + parts[4] + "*/\n" + parts[2])
	p.Script = template.JS(parts[3])
	return nil
}

func (p *page) plotData() plotData {
	d := plotData{Targets: []plotTarget{}, Plots: []plot{}}
	for i := range p.Targets {
		d.Targets = append(d.Targets, plotTarget{p.Targets[i].String(), p.Targets[i].Grade, i % p.palette, i / (p.palette / 2)})
	}
	if p.Overview.Axes != nil {
		d.Plots = append(d.Plots, *p.Overview.Axes)
	}
	for i := range p.Sections {
		for _, g := range p.Sections[i].Plots {
			d.Plots = append(d.Plots, g.Plots...)
		}
	}
	return d
}
