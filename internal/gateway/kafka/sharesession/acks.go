package sharesession

import (
	"slices"

	"godwit/internal/base"
)

// The types of acknowledgements, as in ShareFetch and ShareAcknowledge.
const (
	AckGap     int8 = 0 // there is no record at the offset
	AckAccept  int8 = 1
	AckRelease int8 = 2
	AckReject  int8 = 3
	AckRenew   int8 = 4 // from version 2 on (KIP-1222)
)

// Ack is one batch of acknowledgements of a partition.
type Ack struct {
	First, Last int64  // offsets, last included
	Types       []int8 // one for all offsets, or one for each
}

// CheckAcks checks the batches of one partition before any of them is looked at. The error is CodeInvalidRequest. renews is what the
// request says of itself; version is the request's.
func CheckAcks(batches []Ack, version int16, renews bool) error {
	highest := AckReject
	if version >= 2 {
		highest = AckRenew
	}
	bad := func(format string, args ...any) error { return base.Errorf(base.CodeInvalidRequest, format, args...) }
	end := int64(-1)
	for _, b := range batches {
		switch {
		case b.First > b.Last:
			return bad("acknowledged offsets %d to %d: the last is before the first", b.First, b.Last)
		case b.First < end:
			return bad("acknowledged offsets %d to %d come after offset %d: they are to be in order", b.First, b.Last, end)
		case len(b.Types) == 0:
			return bad("offsets %d to %d are acknowledged without a type", b.First, b.Last)
		case len(b.Types) > 1 && b.Last-b.First != int64(len(b.Types)-1):
			return bad("offsets %d to %d are acknowledged with %d types: give one for all, or one for each", b.First, b.Last, len(b.Types))
		case slices.ContainsFunc(b.Types, func(t int8) bool { return t < AckGap || t > highest }):
			return bad("offsets %d to %d are acknowledged with types %v: 0 to %d are known in version %d", b.First, b.Last, b.Types, highest, version)
		case !renews && slices.Contains(b.Types, AckRenew):
			return bad("offsets %d to %d are renewed in a request that does not say that it renews", b.First, b.Last)
		}
		end = b.Last
	}
	return nil
}
