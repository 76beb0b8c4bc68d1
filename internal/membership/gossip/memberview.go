package gossip

// A MemberView is a member and whether it can be reached.
type MemberView struct {
	Member
	Reachable bool     // there is no evidence against it
	Evidence  Evidence // the strongest against an unreachable member
}
