package shard

import "context"

// AfterCommit has f called once the store has everything that the turn of ctx has changed and seen,
// before the turn's answer leaves. f gets nil, or an error if this home of the shard cannot know
// whether the store has it; the next home finds out. AfterCommit is for interceptors of a host, after
// next has returned; ctx is the interceptor's. It returns false and does not call f if there is
// nothing to wait for: the type is not durable, or the store already has all that the turn changed
// and saw. f must not block.
func AfterCommit(ctx context.Context, f func(err error)) bool {
	d := durableOf(turnOf(ctx))
	if d == nil || d.tenure == nil || d.ticket == 0 || d.mayLeave() {
		return false
	}
	d.tenure.Then(d.ticket, f)
	return true
}
