package txn

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"godwit/internal/base"
)

// Describe shows one transactional ID.
func (c *Coordinator) Describe(k Key) Description {
	d := Description{Key: k, Status: Dead, ProducerID: -1, Epoch: -1, Started: -1}
	if d.Err = checkKey(k); d.Err != nil {
		return d
	}
	t := c.live.txns[k]
	if t == nil {
		d.Err = unknownTxn(k)
		return d
	}
	d.Status, d.ProducerID, d.Epoch, d.TimeoutMs, d.Started = t.Status, t.ProducerID, t.Epoch, t.TimeoutMs, t.Started
	d.Partitions, d.Groups = t.partitionList(), slices.Sorted(maps.Keys(t.groups))
	return d
}

// maxPattern is the length of the longest pattern, bytes: matching costs its length for every byte of every ID.
const maxPattern = 1_024

// List lists the transactional IDs of a namespace.
func (c *Coordinator) List(now int64, namespace string, f Filter) List {
	c.advance(now)
	var out List
	if len(f.Pattern) > maxPattern {
		out.Err = base.Errorf(base.CodeInvalidRegex, "The pattern has %d bytes, at most %d are allowed.", len(f.Pattern), maxPattern)
		return out
	}
	pattern, err := compile(f.Pattern)
	if err != nil {
		out.Err = base.Errorf(base.CodeInvalidRegex, "The pattern %q is not a valid RE2 expression: %v.", f.Pattern, err)
		return out
	}
	var statuses []Status
	for _, name := range f.Statuses {
		if i := slices.Index(statusNames[:], name); i >= 0 {
			statuses = append(statuses, Status(i))
		} else {
			out.Unknown = append(out.Unknown, name)
		}
	}
	for k, t := range c.live.txns {
		switch {
		case k.Namespace != namespace:
		case len(f.Statuses) > 0 && !slices.Contains(statuses, t.Status):
		case len(f.ProducerIDs) > 0 && !slices.Contains(f.ProducerIDs, t.ProducerID):
		case f.Duration >= 0 && c.now-t.Started <= f.Duration:
		case pattern != nil && !pattern.MatchString(k.ID):
		default:
			out.Txns = append(out.Txns, Listing{k.ID, t.ProducerID, t.Status})
		}
	}
	slices.SortFunc(out.Txns, func(a, b Listing) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// compile makes an expression that matches whole names; nil if there is none.
func compile(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	if _, err := regexp.Compile(pattern); err != nil { // on its own, so that nothing closes the brackets below
		return nil, err
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}
