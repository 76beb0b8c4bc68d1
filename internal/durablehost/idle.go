package durablehost

import (
	"time"

	"github.com/shardgen/shardgen/store"

	"github.com/shardgen/shardgen/internal/durable"
)

// A shard moves its since so that the store can trim the log of others: once after it has become
// idle, and then seldom. One that is not idle, but too slow to need a checkpoint of its own, does
// so too.
const (
	idleAfter  = time.Minute
	idlePeriod = 10 * time.Minute
)

// An idle is the work of a tenure that no call causes. The tenure's lock guards it.
type idle struct {
	changed time.Time // when something was committed last
	moved   time.Time // when since was moved for the sake of others
	saved   time.Time // when the last checkpoint ended
	mark    int64     // Appends.written at that time
	outages uint64    // at the last look
}

func newIdle(c *Config, now time.Time) idle {
	return idle{changed: now, moved: now, saved: now, mark: c.Appends.written.Load(), outages: outages(c)}
}

// checkpointed notes that a checkpoint has ended.
func (i *idle) checkpointed(c *Config, now time.Time) {
	i.saved, i.mark = now, c.Appends.written.Load()
}

// look looks whether any of it is due.
func (i *idle) look(t *Tenure, now time.Time) {
	i.moveSince(t, now)
	i.verify(t.core, &t.shard.cfg, now)
}

// moveSince moves the since of a shard that holds up the trimming of others.
func (i *idle) moveSince(t *Tenure, now time.Time) {
	idle := now.Sub(i.changed) >= idleAfter && !i.changed.Before(i.moved)
	late := now.Sub(i.saved) >= idlePeriod || t.shard.cfg.Appends.written.Load()-i.mark >= maxHeld
	if (idle || late) && !t.core.Busy() {
		i.moved = now
		t.core.Advance(now)
	}
}

// verify has the core look whether the log still has all, after the store was away.
func (i *idle) verify(core *durable.Shard, c *Config, now time.Time) {
	if n := outages(c); n != i.outages {
		i.outages = n
		core.Verify(now)
	}
}

// An interrupted store counts how often its connection was lost and came back.
type interrupted interface{ Outages() uint64 }

// outages returns a number that grows whenever the store is back after it was away, and may have lost
// acknowledged appends. It does not grow while the store, or a stream of it, is away: appends would be of no
// use there, and would come again and again to the streams that are not.
func outages(c *Config) uint64 { return c.Appends.outages.Load() + Outages(c.Store) }

// Outages returns how often the connection of a store was lost and came back; 0 where the store
// does not say.
func Outages(s store.Shards) uint64 {
	if s, ok := s.(interrupted); ok {
		return s.Outages()
	}
	return 0
}
