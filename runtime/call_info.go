package shard

import "context"

// CallInfo returns the description of the call whose turn ctx belongs to: the context of a method, or
// of OnActivate if a call activates the entity. It reports false for other contexts, also after the
// turn has ended. A local call keeps 16 bytes for it; the rest is put together here.
func CallInfo(ctx context.Context) (Info, bool) {
	t := turnOf(ctx)
	if t == nil || t.method == "" {
		return Info{}, false
	}
	return infoOf(t.info()), true
}
