package gossip

import "slices"

// Preformed returns the state of a cluster that has long been formed. Its members are all
// Up, the first is the oldest, and all have seen the state. It is for simulations.
func Preformed(members []Member) *State {
	g := &State{Founder: members[0].Address, UpCounter: uint32(len(members))}
	for i, r := range members {
		r.Status, r.UpNumber = Up, uint32(i+1)
		g.Members = append(g.Members, r)
	}
	slices.SortFunc(g.Members, func(a, b Member) int { return a.Compare(b.Address) })
	g.Seen, g.summary = FullSeenSet(len(g.Members)), &summaryOnce{}
	for _, r := range g.Members {
		g.Version = append(g.Version, ClockEntry{r.Address, 2})
	}
	return g
}
