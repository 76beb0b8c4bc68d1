package message

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/wire"
)

func seenToWire(s gossip.SeenSet, members int) []byte {
	b := make([]byte, (members+7)/8)
	for i := range b {
		if i/8 < len(s) {
			b[i] = byte(s[i/8] >> (i % 8 * 8))
		}
	}
	return b
}

func seenFromWire(b []byte, members int) (gossip.SeenSet, error) {
	if len(b) != (members+7)/8 {
		return nil, fmt.Errorf("the seen set has %d bytes for %d members", len(b), members)
	}
	s := gossip.NewSeenSet(members)
	for i, x := range b {
		s[i/8] |= uint64(x) << (i % 8 * 8)
	}
	if !s.Fits(members) {
		return nil, fmt.Errorf("the seen set names more than the %d members", members)
	}
	return s, nil
}

func statusToWire(s Status) *wire.MembershipStatus {
	w := &wire.MembershipStatus{
		VersionLow: s.Version[0], VersionHigh: s.Version[1], Changes: s.Changes,
		All: s.All, Members: uint32(s.Members),
	}
	switch count := s.Seen.Count(); {
	case s.All:
	case 2*count < s.Members/8: // a place takes up to two bytes
		for i := range s.Members {
			if s.Seen.Has(i) {
				w.Few = append(w.Few, uint32(i))
			}
		}
	default:
		w.Seen = seenToWire(s.Seen, s.Members)
	}
	return w
}

func statusFromWire(w *wire.MembershipStatus) (Status, error) {
	s := Status{
		Version: gossip.Digest{w.VersionLow, w.VersionHigh}, Changes: w.Changes,
		All: w.All, Members: int(w.Members),
	}
	if s.All {
		return s, nil
	}
	if s.Members > maxMembers {
		return s, fmt.Errorf("the status claims %d members, which is too many", s.Members)
	}
	if len(w.Seen) > 0 || len(w.Few) == 0 {
		var err error
		s.Seen, err = seenFromWire(w.Seen, s.Members)
		return s, err
	}
	s.Seen = gossip.NewSeenSet(s.Members)
	for _, i := range w.Few {
		if int64(i) >= int64(s.Members) {
			return s, fmt.Errorf("the status names member %d of only %d", i, s.Members)
		}
		s.Seen.Add(int(i))
	}
	return s, nil
}
