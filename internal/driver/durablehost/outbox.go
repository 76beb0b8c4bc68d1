package durablehost

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// maxTells bounds how many tells of one shard are being sent at a time.
const maxTells = 1024

// An outbox sends a shard's due tells. At most one tell to each entity is sent at a time, because
// the core returns only one.
type outbox struct {
	queue []durable.Tell
	busy  int // number of tells being sent
}

func (o *outbox) put(tell durable.Tell) {
	if *tell.Sending {
		return // it is due again
	}
	*tell.Sending = true
	o.queue = append(o.queue, tell)
}

func (o *outbox) next() (tells []durable.Tell) {
	n := min(len(o.queue), maxTells-o.busy)
	tells, o.queue = o.queue[:n:n], o.queue[n:]
	o.busy += n
	return tells
}

func (o *outbox) done(tell durable.Tell) {
	*tell.Sending = false
	o.busy--
}

// tellLocked sends queued tells. The caller holds the tenure's lock.
func (t *Tenure) tellLocked() {
	if tells := t.outbox.next(); len(tells) > 0 {
		t.shard.cfg.Host.Tell(t.ctx, t.Shard(), tells, t.told)
	}
}

func (t *Tenure) told(tells []durable.Tell, arrived bool) {
	t.do(func(now time.Time) {
		for _, tell := range tells {
			t.outbox.done(tell)
			if arrived {
				t.core.Arrived(now, tell.Target, tell.Number)
			}
		}
		t.tellLocked()
	})
}

// TellID returns the ID of the command with which shard from sends one of its stored tells.
func TellID(from store.Shard, tell durable.Tell) ID {
	return ID{
		Log: durable.Target{Log: from.Type, Shard: uint32(from.Number)}, Number: tell.Number, Floor: tell.Floor,
	}
}
