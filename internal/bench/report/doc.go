// Package report shows what a benchmark found: tables for a terminal, Markdown, and one page of HTML with plots that needs no
// network. All three are made from the same document, so that they say the same.
//
// A report claims a difference only where every round of one target is on the same side of every round of the other,
// and a target's name never stands without the durability that was seen of it.
package report
