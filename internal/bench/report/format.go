package report

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"godwit/internal/bench/result"
)

// number prints three significant digits, thousands with k, M and G where short says so.
func number(x float64, short bool) string {
	a := math.Abs(x)
	switch {
	case short && a >= 999.5e6:
		return digits(x/1e9) + "G"
	case short && a >= 999.5e3:
		return digits(x/1e6) + "M"
	case short && a >= 9995:
		return digits(x/1e3) + "k"
	}
	return digits(x)
}

// digits prints three significant digits without an exponent, and whole numbers in full.
func digits(x float64) string {
	if x == 0 || math.Abs(x) < 1e-9 {
		return "0"
	}
	places := max(0, 2-int(math.Floor(math.Log10(math.Abs(x))+1e-9)))
	s := strconv.FormatFloat(x, 'f', places, 64)
	if x == math.Trunc(x) && strings.Contains(s, ".") {
		s = strconv.FormatFloat(x, 'f', 0, 64)
	}
	return s
}

// whole prints a count with thousands apart.
func whole(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, r := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return sign + b.String()
}

// measured is the cell of a spread: its median, and the range if there is more than one round.
func measured(s result.Spread, short bool) cell {
	if s.N == 0 {
		return cell{Text: "-", Mark: dim}
	}
	c := cell{Text: number(s.Median, short)}
	if s.N > 1 {
		c.Low, c.High = number(s.Min, short), number(s.Max, short)
	}
	return c
}

// times prints a ratio.
func times(x float64) string {
	if x > 0 && x < 0.01 {
		return "<0.01x"
	}
	s := strconv.FormatFloat(x, 'f', 2, 64)
	if x >= 9.995 {
		s = digits(x)
	}
	return s + "x"
}

// list joins words as a sentence does.
func list(words []string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
}

// plural is "1 round", "2 rounds".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return whole(int64(n)) + " " + noun + "s"
}

// line makes foreign text fit for one line: no control characters, which steer terminals, and no marks that turn the
// direction of writing, which make text look like another.
func line(s string) string {
	return strings.Join(strings.Fields(strings.Map(harmless, s)), " ")
}

// text is line for text of several lines.
func text(s string) string {
	s = strings.Map(harmless, strings.ReplaceAll(s, "\r\n", "\n"))
	return strings.TrimRight(s, "\n")
}

func harmless(r rune) rune {
	switch {
	case r == '\n' || r == '\t' || r == ' ':
		return r
	case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x2028, r == 0x2029, r == 0xfeff:
		return unicode.ReplacementChar
	}
	return r
}

// digits4 prints a percentile: 99.95.
func digits4(q float64) string { return strconv.FormatFloat(q, 'f', -1, 64) }
