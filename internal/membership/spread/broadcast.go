package spread

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/lease"

	"github.com/shardgen/shardgen/internal/membership/core"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// In a large cluster telling all is too much for everybody. There a change goes
// to the leader, which broadcasts the state; who is told it says so to the
// leader, with a small status; and the leader broadcasts that all have it. What
// is lost on the way the rounds repair. So a change costs two broadcasts and a
// small message a member, and versions that come close together cost one.
//
// A cut may take the leader away, and then it takes evidence against it, and
// against all that come before the next one who can lead, until there is a new
// one: evidence that has to be spread. So a leader that says nothing for castMute
// after it was told something is given up for the time being: changes go to the
// hub, the first collector that answers, and that one broadcasts them.

// A Broadcaster spreads changes in a large cluster.
type Broadcaster struct {
	*core.Node
	Collectors *lease.Collectors
	GossipAt   time.Time // when the next round is due
	progress   broadcastProgress
}

// broadcastProgress is how far the present version is spread.
type broadcastProgress struct {
	digest  gossip.Digest // the version when last looked at
	version time.Time     // since when that is
	caster  uint64        // who broadcast then
	seen    bool          // that one has been told that this node has it
	owed    bool          // the state has to be told: by the leader to all, by others to it
	next    time.Time     // not before that
	// told is since when the leader has said nothing although it was told something.
	told time.Time
	// announced is the version of which all were told that all have it.
	announced gossip.Digest
}

const (
	// castAnswers is for how long after a new version nobody is answered who has an
	// older one: the broadcast is on its way.
	castAnswers = time.Second
	// castMute is for how long a leader may say nothing. It broadcasts every second
	// as long as some have not seen what it was told.
	castMute = 2500 * time.Millisecond
)

// caster is who broadcasts changes for this node: the leader, or the hub while
// nothing is heard from the leader. Zero: nobody does.
func (b *Broadcaster) caster() transport.Address {
	leader := b.Local().Leader
	if leader == b.Config.Self || b.progress.told.IsZero() {
		return leader
	}
	if at := b.progress.told.Add(castMute); b.Now.Before(at) {
		b.WakeAt(at)
		return leader
	}
	return b.Collectors.Hub()
}

// casts reports whether it is on this node to tell all.
func (b *Broadcaster) casts() bool { return !b.Small() && b.caster() == b.Config.Self }

// LeaderSpoke: it is not mute, whoever led before.
func (b *Broadcaster) LeaderSpoke(from transport.Address) {
	if !b.progress.told.IsZero() && b.Phase == core.Joined && from == b.Local().Leader {
		b.progress.told = time.Time{}
	}
}

// spreadLarge does what is due after a step.
func (b *Broadcaster) spreadLarge() {
	f := b.Local()
	caster := b.caster()
	casts := caster == b.Config.Self
	if place := gossip.RingPlace(caster); b.progress.digest != f.Digest || b.progress.caster != place {
		if b.progress.digest != f.Digest {
			b.progress.version = b.Now
		}
		b.progress.digest, b.progress.caster, b.progress.seen = f.Digest, place, false
		b.progress.owed = casts || !b.Gossip.SeenBy(caster)
	}
	switch {
	case caster.IsZero():
	case b.progress.owed:
		if b.Now.Before(b.progress.next) {
			b.WakeAt(b.progress.next)
			return
		}
		b.progress.owed, b.progress.seen, b.progress.next = false, true, b.Now.Add(b.BroadcastInterval())
		if casts {
			b.GossipAt = b.Now.Add(b.Config.GossipInterval)
			b.Broadcast(message.Gossip{State: b.Gossip})
		} else {
			b.tellCaster(message.Gossip{Target: message.TargetOf(caster), State: b.Gossip})
		}
	case casts:
		if b.progress.announced != f.Digest && b.allReachedHaveSeen() {
			b.progress.announced = f.Digest
			b.Broadcast(b.Status(0))
		}
	case !b.progress.seen:
		b.progress.seen = true
		b.tellCaster(b.Status(message.TargetOf(caster)))
	}
}

// tellCaster sends a word to the caster, and expects one from the leader.
func (b *Broadcaster) tellCaster(msg message.Message) {
	caster := b.caster()
	if b.progress.told.IsZero() {
		b.progress.told = b.Now
		b.WakeAt(b.Now.Add(castMute))
	}
	b.Send(caster, msg)
}

// allReachedHaveSeen reports whether every member that acts has seen the version,
// but for unreachable ones.
func (b *Broadcaster) allReachedHaveSeen() bool {
	f := b.Local()
	if f.Why == "" {
		return true
	}
	lacking := f.Must.Count() - b.Gossip.Seen.Common(f.Must)
	for _, i := range f.Unreachable {
		if f.Must.Has(i) && !b.Gossip.Seen.Has(i) {
			lacking--
		}
	}
	return lacking == 0
}

// forgetBroadcasts begins anew, in a cluster that is small.
func (b *Broadcaster) forgetBroadcasts() {
	b.progress = broadcastProgress{}
}
