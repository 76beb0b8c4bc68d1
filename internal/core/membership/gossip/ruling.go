package gossip

import "github.com/shardgen/shardgen/transport"

// A Ruling names the last holder of the lease that decides splits, and its token. The
// side that knows the ruling may take the lease over from the holder; another side
// cannot.
type Ruling struct {
	Holder transport.Address // the node that took the lease
	Token  uint64            // the store's token for it; later holdings have higher ones
}

// mergeRuling keeps the later one.
func mergeRuling(a, b Ruling) Ruling {
	if b.Token > a.Token || b.Token == a.Token && b.Holder.Compare(a.Holder) > 0 {
		return b
	}
	return a
}
