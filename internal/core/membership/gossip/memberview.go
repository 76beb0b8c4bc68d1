package gossip

// A MemberView is a member and whether it can be reached.
type MemberView struct {
	Member
	Reachable bool     // no evidence stands against it
	Evidence  Evidence // the strongest against an unreachable member
}
