package shard

import "context"

// AfterCommit has f called once the store has everything that the turn of ctx has changed and seen,
// with nil, or with an error when the shard's home does not know whether the store has it: the next
// home does then. The turn's answer leaves after that. It is for interceptors of a host, after next
// has returned; ctx is the interceptor's. It returns false and does not call f if nothing is waited
// for: the type is not durable, or the store already has all that the turn changed and saw. f must
// not block.
func AfterCommit(ctx context.Context, f func(err error)) bool {
	d := durableOf(turnOf(ctx))
	if d == nil || d.tenure == nil || d.ticket == 0 || d.mayLeave() {
		return false
	}
	d.tenure.Then(d.ticket, f)
	return true
}
