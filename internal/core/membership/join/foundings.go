package join

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/transport"
)

// A Foundings keeps the store's record of who founded the cluster, if there is a store. A joiner
// forms the cluster only after it has written itself into the record as the founder, by
// compare-and-set. The leader rewrites the record every foundingEvery. So a joiner sees that the
// cluster lives, even if the joiner is at another broker than the members.
//
// A joiner may replace the record of a dead cluster. It may do so at once if the record was last
// written through the joiner's own broker instance, because no member serves there. Otherwise the
// record must not have changed for foundingLife.
type Foundings struct {
	*core.Node
	number   uint64    // of the latest request
	waits    bool      // the latest request has no answer yet
	writes   bool      // the latest request is a write
	at       time.Time // when the next request is due
	pause    time.Time // no request before, because the store did not answer
	known    bool      // record and revision are those of the store, as far as this node knows
	found    bool      // this node wrote them
	record   core.Founding
	revision uint64    // 0 means there is no record
	since    time.Time // when revision was first read
	told     transport.Address
	trouble  string
}

const (
	// foundingEvery is the time between two readings by a joiner, and between two writings by the
	// leader.
	foundingEvery = time.Second
	// foundingLife is how long a record must stay the same before its cluster counts as gone.
	foundingLife   = 3*foundingEvery + foundingEvery/2
	foundingWithin = 2 * time.Second
	foundingPause  = 250 * time.Millisecond
)

// Free reports whether this joiner may write the founding record. vacant says that the broker knows
// no serving member.
func (f *Foundings) Free(vacant bool) bool {
	if !f.Config.Founding {
		return true
	}
	if !f.known || !f.Now.Before(f.at) {
		f.read()
		return false
	}
	if f.revision == 0 || f.record.Founder == f.Config.Self || vacant && f.record.Server == f.Conn.Server ||
		f.Now.Sub(f.since) >= foundingLife {
		f.trouble = ""
		return true
	}
	f.trouble = fmt.Sprintf("the store's record names a cluster formed by %v, last written by its member %v through broker %s; this node is connected to %s, where no member answers "+
		"(connect all nodes to one broker, or give this cluster another name and store)", f.record.Founder, f.record.Node, f.record.Server, f.Conn.Server)
	if f.told != f.record.Founder {
		f.told = f.record.Founder
		f.Emit(core.FoundedElsewhere{Other: f.record, Server: f.Conn.Server})
	}
	f.WakeAt(f.at)
	return false
}

// Begin resets the data of an earlier claim. It is called when a claim begins, after Free has
// returned true.
func (f *Foundings) Begin() { f.found, f.told = false, transport.Address{} }

// Found reports in found whether the record names this joiner as the founder. If not, Found begins
// to write the record, and the caller must call Found again later. lost says that another node has
// written first, or that the outcome of the write is unknown. Without a store, found is true.
func (f *Foundings) Found() (found, lost bool) {
	if !f.Config.Founding || f.found {
		return true, false
	}
	if !f.waits && !f.known {
		return false, true
	}
	f.write(f.Config.Self)
	return false, false
}

// RunFounding rewrites the record every foundingEvery if this node is the leader.
func (f *Foundings) RunFounding() {
	if !f.Config.Founding || !f.Leads() {
		return
	}
	if f.Now.Before(f.at) {
		f.WakeAt(f.at)
		return
	}
	if !f.known {
		f.read()
		return
	}
	f.write(f.Gossip.Founder)
}

func (f *Foundings) read() { f.ask(core.FoundingRequest{}) }

func (f *Foundings) write(founder transport.Address) {
	f.ask(core.FoundingRequest{
		Write: true, Over: f.revision,
		Founding: core.Founding{Founder: founder, Node: f.Config.Self, Server: f.Conn.Server},
	})
}

func (f *Foundings) ask(r core.FoundingRequest) {
	switch {
	case f.waits:
		return
	case f.Now.Before(f.pause):
		f.WakeAt(f.pause)
		return
	}
	f.number++
	f.waits, f.writes = true, r.Write
	r.Number, r.Within = f.number, foundingWithin
	if f.record = r.Founding; !r.Write {
		f.record = core.Founding{}
	}
	f.Out.Founding = &r
}

// OnFounding handles the store's answer to a request.
func (f *Foundings) OnFounding(in core.FoundingAnswer) {
	if in.Number != f.number || !f.waits {
		return
	}
	f.waits = false
	f.at = f.Now.Add(foundingEvery)
	switch {
	case in.Reason != "":
		f.trouble, f.known = in.Reason, false // a write may have come through
		f.pause = f.Now.Add(foundingPause)
	case f.writes && in.Conflict:
		f.known, f.at = false, time.Time{}
	case f.writes:
		f.known, f.found, f.revision, f.since = true, true, in.Revision, f.Now
	default:
		if !f.known || f.revision != in.Revision {
			f.since = f.Now
		}
		f.known, f.record, f.revision = true, in.Founding, in.Revision
		f.meet()
	}
}

// meet handles a record of another cluster: it makes the next write of the record due at once, and
// emits FoundedElsewhere once for each other cluster.
func (f *Foundings) meet() {
	if f.Phase != core.Joined {
		return
	}
	f.at = f.Now // the record is written over the other's
	if f.revision != 0 && f.record.Founder != f.Gossip.Founder && f.told != f.record.Founder {
		f.told = f.record.Founder
		f.Emit(core.FoundedElsewhere{Other: f.record, Server: f.Conn.Server})
	}
}
