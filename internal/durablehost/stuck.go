package durablehost

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/store"
)

// stuckAfter is how long a shard may be placed here without being open before operators are told. One that
// has met another home's epoch needs staleAfter, if nothing is wrong.
const stuckAfter = 2 * staleAfter

// A Stuck is a shard that is placed at this process and has not opened for too long.
type Stuck struct {
	For time.Duration // rounded
	Why string        // with the remedy, for people
}

// A shut is the time since which a shard is placed here and not open, and the end of its last tenure.
type shut struct {
	since time.Time // zero: it is open, or not here
	epoch uint64    // of the last tenure that has ended
	met   uint64    // the epoch that ended it; 0 means none did
	err   error     // its fault; nil means none
}

// begin notes that the shard is here and not open.
func (s *shut) begin() {
	if s.since.IsZero() {
		s.since = time.Now()
	}
}

// stuck is why a shard is stuck whose claim is under that epoch; trouble is the store's last fault.
func (s *shut) stuck(shard store.Shard, epoch uint64, outgrow bool, trouble string) string {
	repair := fmt.Sprintf("shardctl store repair %s -shard %d: -from restores an export, -drop accepts the loss", shard.Type, shard.Number)
	under := "its claim under epoch " + epochText(epoch)
	switch {
	case s.met != 0 && outgrow:
		return fmt.Sprintf("%s met %s in the store, and the coordinator has not begun a later term (look at the log of its node)", under, epochText(s.met))
	case s.met != 0:
		return fmt.Sprintf("%s met %s in the store (if no other process has it: %s)", under, epochText(s.met), repair)
	case s.err != nil:
		return fmt.Sprintf("%s failed: %v (shardctl store verify names what cannot be read; %s)", under, s.err, repair)
	}
	return fmt.Sprintf("%s is not confirmed%s (check the store: shardctl doctor)", under, trouble)
}
