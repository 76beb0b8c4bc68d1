package shard

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// What a call without a home waits for, worded when one has failed.

// reasonLife is for how long a coordinator's reason is told. It is asked again every
// half second, and says nothing when a home can be given.
const reasonLife = 3 * time.Second

// homeReasons are why kinds have no home, as others said. It is safe for concurrent use.
type homeReasons struct {
	mu   sync.Mutex
	kind map[string]reasonSaid
}

// maxReasons bounds the kinds of which a reason is kept.
const maxReasons = 4096

type reasonSaid struct {
	text        string
	first, last time.Time // when it was said
}

// note takes a reason that was said now.
func (r *homeReasons) note(kind, text string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kind == nil || len(r.kind) > maxReasons { // the names are a user's, and may be any
		r.kind = map[string]reasonSaid{}
	}
	said := r.kind[kind]
	if said.text != text || now.Sub(said.last) > reasonLife {
		said = reasonSaid{text: text, first: now}
	}
	said.last = now
	r.kind[kind] = said
}

// clear forgets them all.
func (r *homeReasons) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kind = nil
}

// said is the last reason, and how long it has held if it is not over.
func (r *homeReasons) said(kind string, now time.Time) string {
	if why := r.lately(kind, now); why != "" {
		return why
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kind[kind].text
}

// lately is the last reason and for how long it has been said; "" if it is over.
func (r *homeReasons) lately(kind string, now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.kind[kind]
	if said.text == "" || now.Sub(said.last) > reasonLife {
		return ""
	}
	return said.text + forSome(now.Sub(said.first))
}

// forSome is " (for 4.2s)", or nothing for a short time.
func forSome(d time.Duration) string {
	if d < 100*time.Millisecond {
		return ""
	}
	return fmt.Sprintf(" (for %v)", d.Round(100*time.Millisecond))
}

// reach is since when channels have had no connection to the broker. It is safe for
// concurrent use.
type reach struct {
	mu    sync.Mutex
	since map[transport.Channel]time.Time
}

func (r *reach) note(ch transport.Channel, connected bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if connected {
		delete(r.since, ch)
		return
	}
	if r.since == nil {
		r.since = map[transport.Channel]time.Time{}
	}
	if _, ok := r.since[ch]; !ok {
		r.since[ch] = now
	}
}

// away is for how long one of the channels has had no connection; 0: all have one.
func (r *reach) away(now time.Time, channels ...transport.Channel) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ch := range channels {
		if since, ok := r.since[ch]; ok {
			longest = max(longest, now.Sub(since), time.Millisecond)
		}
	}
	return longest
}

// waitsFor is what a call of the route waits for that has no home to go to.
func (r *route) waitsFor(now time.Time) error {
	pl, name := r.kind.plane, r.kind.desc.Name
	if d := pl.reach.away(now, transport.Control, transport.Channel(pl.laneOf(r.shard))); d > 0 {
		return fmt.Errorf("%w: NATS has not been reached for %v", errNoHome, d.Round(time.Millisecond))
	}
	from, to, left := r.moving()
	since := ""
	if !left.IsZero() {
		since = forSome(now.Sub(left))
	}
	switch {
	case from.IsZero():
	case to.IsZero():
		return fmt.Errorf("%w: shard %d of %s leaves %s, and its next home is not known yet%s", errMoving, r.shard, name, from.Name, since)
	default:
		return fmt.Errorf("%w: shard %d of %s moves from %s to %s%s", errMoving, r.shard, name, from.Name, to.Name, since)
	}
	why, hosted := pl.ctl.waits(name, now)
	switch {
	case !hosted:
		return fmt.Errorf("%w: %s", ErrNoHost, why)
	case why != "":
		return fmt.Errorf("%w: %s", errNoHome, why)
	}
	return errNoHome
}

// noInstance is why a call of a singleton found no instance to go to.
func (r *route) noInstance(now time.Time) error {
	pl := r.kind.plane
	if d := pl.reach.away(now, transport.Control, transport.Channel(pl.laneOf(r.shard))); d > 0 {
		return fmt.Errorf("%w: NATS has not been reached for %v", ErrNoInstance, d.Round(time.Millisecond))
	}
	return fmt.Errorf("%w: %s", ErrNoInstance, pl.ctl.why(r.kind.desc.Name, now))
}

// silence is how long a peer has sent nothing on the session, for errors; "" if it is
// short, or nothing ever came.
func (p *peerSession) silence(now time.Time) string {
	p.Lock()
	defer p.Unlock()
	if d := now.Sub(p.HeardLocked()); !p.HeardLocked().IsZero() && d >= silenceTold {
		return fmt.Sprintf(", which has been silent for %v", d.Round(100*time.Millisecond))
	}
	return ""
}

// silenceTold is from when on the silence of a home is told.
const silenceTold = time.Second

// errPassed is the cause of a call whose deadline was over before it could be sent.
var errPassed = errors.New("its deadline had passed before it was sent")

// waits is what calls of a kind without a home wait for, as this member knows it.
func (c *control) waits(kind string, now time.Time) (why string, hosted bool) {
	v := c.view.Load()
	if v == nil || v.SelfStatus < membership.WeaklyUp {
		return fmt.Sprintf("node %s is not up yet", c.self.Name), true
	}
	if v.SelfStatus != membership.WeaklyUp && !c.plane.lease.Valid() {
		return noContact(c.self.Name), true
	}
	if !hostmeta.Hosted(v, kind) {
		return fmt.Sprintf("%s is hosted by none of the %d members (start a node that calls Host%s)", kind, len(v.ByAge), kind), false
	}
	if why := c.reasons.lately(kind, now); why != "" {
		return why, true
	}
	for _, m := range v.ByAge {
		if m.Status == membership.Down && m.MayRun() {
			return fmt.Sprintf("%s was downed, and what it had waits until it certainly runs nothing", m.Name), true
		}
	}
	for _, m := range v.ByAge {
		if !m.Reachable && m.Status != membership.Down {
			return fmt.Sprintf("%s cannot be reached (%v) and is not downed yet", m.Name, m.Evidence), true
		}
	}
	return "the coordinator has not given it one", true
}
