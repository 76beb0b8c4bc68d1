package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/runtime/membership"
)

// Bounds beyond which a finding is a fault.
const (
	loopPatience = 30 * time.Second // longest allowed time without a run of the control loop
	nearlyFull   = 0.8              // share of a limit
	// If the store takes no write, or the table does not answer, for storePatience, that is a
	// fault. After storeUnready without a write a process with durable types is unready. That time
	// is longer, because a stream takes some seconds to elect a leader.
	storePatience = time.Second
	storeUnready  = 5 * time.Second
	missingFor    = time.Hour // after a member was lost
	expirySoon    = 14 * 24 * time.Hour
	expiryShare   = 5 // short-lived credentials count as ending soon in the last fifth of their life
	clockSkew     = time.Second
	payloadMin    = 1 << 20
	replicaSilent = 10 * time.Second
	replicaLag    = 10_000 // messages
	// loopLosses losses of a member within loopWithin are a crash loop, until the member has been
	// up for loopCalm.
	loopLosses = 3
	loopWithin = 10 * time.Minute
	loopCalm   = time.Minute
)

const syncClocks = "synchronize the clocks: log lines, and the expiry of entities and idempotency keys, depend on them"

// A judge collects findings.
type judge struct {
	Snapshot
	found []operator.Finding
}

func (j *judge) add(severity operator.Severity, check, subject, do, format string, args ...any) *operator.Finding {
	f := operator.Finding{Check: check, Subject: subject, Severity: severity, Text: fmt.Sprintf(format, args...), Do: do}
	j.found = append(j.found, f)
	return &j.found[len(j.found)-1]
}

// fine adds a Fine finding for a check that has no finding yet.
func (j *judge) fine(check, format string, args ...any) {
	if !slices.ContainsFunc(j.found, func(f operator.Finding) bool { return f.Check == check }) {
		j.add(operator.Fine, check, "", "", format, args...)
	}
}

// Judge returns the findings of a snapshot, the worst first, then in the order of checks.
func Judge(s Snapshot) []operator.Finding {
	j := &judge{Snapshot: s}
	switch {
	case s.Self != nil && s.Self.Ended != "":
		j.self(operator.Dead, Ready, "", "", "%s", s.Self.Ended)
		return j.found
	case s.Self != nil:
		j.process(s.Self)
	}
	if s.Err != nil {
		j.add(operator.Fault, Cluster, "answer", "check that nodes run, that they are at this broker, and the operator's permissions (shardctl permissions reader)", "%v", s.Err)
		return j.found
	}
	j.members()
	j.past()
	j.shards()
	if s.Self == nil {
		j.merge()
		j.facts()
		j.found = append(j.found, s.Checked...)
		for _, d := range s.Denied {
			j.add(operator.Fault, Rights, d.Node+" "+d.Why, "grant its user the rights that shardctl permissions worker prints", "%s at %s: %s", d.Node, d.At.Local().Format(time.DateTime), d.Why)
		}
		if s.JetStream != nil {
			j.jetStream(s.JetStream)
		}
	}
	slices.SortStableFunc(j.found, func(a, b operator.Finding) int { return int(b.Severity - a.Severity) })
	return j.found
}

// Worst returns the highest severity.
func Worst(all []operator.Finding) (worst operator.Severity) {
	for _, f := range all {
		worst = max(worst, f.Severity)
	}
	return worst
}

// Unsettled returns the worst finding that a rolling restart should wait for, and false if there is
// none. It skips findings about credentials that end soon, because the restart may renew them, and
// findings about wrong clocks.
func Unsettled(all []operator.Finding) (operator.Finding, bool) {
	for _, f := range all { // the worst is the first
		if f.Severity >= operator.Passing && f.Check != Credentials && f.Check != Clocks {
			return f, true
		}
	}
	return operator.Finding{}, false
}

// Lasting returns the findings of the later judgement, except faults that the earlier judgement did
// not have.
func Lasting(earlier, later []operator.Finding) (all []operator.Finding) {
	had := map[string]bool{}
	for _, f := range earlier {
		had[f.Key()] = true
	}
	return slices.DeleteFunc(slices.Clone(later), func(f operator.Finding) bool { return f.Severity >= operator.Fault && !had[f.Key()] })
}

// merge adds the members' own findings. Of a finding that is already there, it takes only an
// earlier Since.
func (j *judge) merge() {
	at := map[string]int{}
	for i, f := range j.found {
		at[f.Key()] = i
	}
	for _, a := range j.Answers {
		if a.Fact == nil {
			continue
		}
		row, err := j.View.Find(a.Node.String())
		comes := err == nil && row.Status != membership.Up // it joins or leaves, so its faults pass
		for _, f := range a.Fact.Findings {
			if comes && f.Node != "" {
				f.Severity = min(f.Severity, operator.Passing)
			}
			i, have := at[f.Key()]
			switch {
			case !have:
				at[f.Key()] = len(j.found)
				j.found = append(j.found, f)
			case j.found[i].Since.IsZero() || !f.Since.IsZero() && f.Since.Before(j.found[i].Since):
				j.found[i].Since = f.Since
			}
		}
	}
}

func (j *judge) members() {
	up := 0
	for _, m := range j.View.Members {
		if m.Status == membership.Up {
			up++
		}
		switch name := m.Address.String(); {
		case m.Status == membership.Down:
			j.add(operator.Fault, Cluster, name, "shardctl events -since 10m", "%v is down: the other members have given it up, and will remove it", m.Address)
		case !m.Reachable:
			j.add(operator.Fault, Cluster, name, "see whether it runs, and look at its log and its network", "%v is not reachable: %s", m.Address, m.Evidence)
		case m.Status != membership.Up:
			j.add(operator.Note, Cluster, name, "", "%v is %v", m.Address, m.Status)
		}
	}
	if !j.View.Converged && len(j.View.Members) > 0 { // without members there is no view, and an error says why
		j.add(operator.Passing, Cluster, "view", "", "the members do not agree yet, so nobody is admitted or removed: %s", j.View.Why)
	}
	if p := j.View.Pause; !p.IsZero() {
		j.add(operator.Note, Cluster, "pause", "", "rebalancing is paused by %s since %s (shardctl resume ends that)", p.By, p.At.UTC().Format(time.RFC3339))
	}
	for _, s := range j.View.Singletons {
		if s.Node.IsZero() {
			j.add(operator.Fault, Cluster, "singleton "+s.Kind, "shardctl members", "singleton %s runs nowhere: %s", s.Kind, s.Why)
		}
	}
	if j.Self != nil && j.View.Status == membership.Up && up < j.Self.MinMembers {
		j.add(operator.Fault, Cluster, "fewest", "start members", "%d of at least %d members are up (Config.Membership.MinMembers)", up, j.Self.MinMembers)
	}
}

func (j *judge) past() {
	for _, l := range j.Past.Lost {
		if l.loops(j.Now) {
			j.add(operator.Fault, Cluster, "crashes "+l.Name, "look at the log of its process, and at what restarts it",
				"%s was lost %d times within %v", l.Name, l.times(j.Now), loopWithin)
		}
		if l.Missing {
			j.add(operator.Fault, Cluster, "missing "+l.Name, "start it again; the other members have its load meanwhile",
				"%s is missing: it was lost at %s and has not come back", l.Name, l.At[len(l.At)-1].UTC().Format(time.RFC3339)).Since = l.At[len(l.At)-1]
		}
	}
}

// Unhosted returns the types that no member hosts although calls wait for them at members. The
// values are the numbers of these calls. Calls that wait at clients are not counted, because only
// the clients know them.
func Unhosted(s Snapshot) map[string]int {
	waiting := map[string]int{}
	for _, a := range s.Answers {
		for _, t := range a.Types {
			if t.Waiting > 0 {
				waiting[t.Kind] += int(t.Waiting)
			}
		}
	}
	for _, m := range s.View.Members {
		for _, kind := range m.Hosts {
			delete(waiting, kind)
		}
	}
	for _, g := range s.View.Singletons {
		delete(waiting, g.Kind)
	}
	return waiting
}

// A sum adds up what the members report about one type.
type sum struct {
	shards, homeless, waiting int
	why                       string
}

// Moving counts the shards that are being moved.
func Moving(all []Answer) (n int) {
	for _, a := range all {
		for _, t := range a.Types {
			for _, s := range t.Held {
				if s.State == "draining" || s.State == "sent" {
					n++
				}
			}
		}
	}
	return n
}

func (j *judge) shards() {
	types := map[string]sum{}
	for _, a := range j.Answers {
		if a.Err != nil {
			j.add(operator.Fault, Answers, a.Node.String(), "look at its log, and at the broker's for denied permissions", "%v does not answer: %v", a.Node, a.Err)
		}
		for _, t := range a.Types {
			s := types[t.Kind]
			s.shards, s.homeless, s.waiting = max(s.shards, int(t.Shards)), max(s.homeless, len(t.Homeless)), s.waiting+int(t.Waiting)
			for _, h := range t.Held {
				s.waiting += int(h.Waiting)
			}
			if s.why == "" && t.Why != "" {
				s.why = ": " + t.Why
			}
			types[t.Kind] = s
			if t.Stuck != "" {
				j.add(operator.Fault, Store, "stuck "+t.Kind, "", "%s", t.Stuck).Node = a.Node.Name
			}
		}
	}
	unhosted := Unhosted(j.Snapshot)
	for _, kind := range SortedKeys(types) {
		switch s, calls := types[kind], unhosted[kind]; {
		case calls > 0 && len(j.View.Members) > 0:
			j.add(operator.Fault, Cluster, kind, "start a member that hosts it", "%s: no member hosts it, so calls of it wait: %d", kind, calls)
		case s.homeless > 0:
			j.add(operator.Fault, Cluster, kind, "shardctl where "+kind+" ID says why", "%s: %d of %d shards have no home, and %d calls wait%s", kind, s.homeless, s.shards, s.waiting, s.why)
		case s.waiting > 0:
			j.add(operator.Passing, Cluster, kind, "", "%s: calls that wait for a home, or for a shard to open: %d%s", kind, s.waiting, s.why)
		}
	}
	if n := Moving(j.Answers); n > 0 {
		j.add(operator.Note, Cluster, "moves", "", "shards on the move: %d", n)
	}
}

// SortedKeys returns the keys of a map, sorted.
func SortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m { //arch:order-free they are sorted
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (j *judge) self(severity operator.Severity, check, subject, do, format string, args ...any) *operator.Finding {
	f := j.add(severity, check, subject, do, format, args...)
	f.Node = j.Self.Name
	return f
}

// process judges the process itself.
func (j *judge) process(p *Process) {
	if p.Stuck >= loopPatience {
		j.self(operator.Dead, Ready, "loop", "shardctl dump shows where it hangs; then restart it", "the control loop has not run for %v", tenths(p.Stuck))
	}
	if p.Away > 0 {
		j.self(operator.Unready, Ready, "broker", "look at the broker, and at the network to it", "the broker has not been reached for %v", tenths(p.Away))
	}
	for i, why := range []string{p.Stopped, p.Outside, p.Leaving, p.Lease} {
		if why != "" {
			j.self(operator.Unready, Ready, fmt.Sprint(i), "", "%s", why)
		}
	}
	if lasts := j.Now.Sub(p.StoreSince); p.Store != "" && lasts >= storePatience {
		severity := operator.Fault
		if p.Durable && lasts >= storeUnready {
			severity = operator.Unready
		}
		j.self(severity, Store, "", "shardctl doctor names limits and streams without a leader", "the store has taken no write for %v: %s", tenths(lasts), p.Store).Since = p.StoreSince
	}
	if lasts := j.Now.Sub(p.TableSince); p.Table != "" && lasts >= storePatience {
		j.self(operator.Fault, Table, "", "look at the table's store, and at the network to it",
			"the membership table has not answered for %v, so no node joins and none that is lost is removed: %s", tenths(lasts), p.Table).Since = p.TableSince
	}
	if by := p.ClockAhead; by.Abs() > clockSkew {
		relation := "ahead of"
		if by < 0 {
			relation = "behind"
		}
		j.self(operator.Fault, Clocks, "store", syncClocks, "the wall clock is %v %s the store's", by.Abs().Round(100*time.Millisecond), relation)
	}
	for _, w := range p.Writes {
		if w.Err == nil {
			j.self(operator.Fault, Store, w.Kind, "look at the disks of the store's servers", "%s: writes to the store are slow: one took %v", w.Kind, tenths(w.Took)).Since = w.Since
			continue
		}
		j.self(operator.Fault, Store, w.Kind, "shardctl doctor names limits and streams without a leader",
			"%s: writes of %d shards have failed for %v: %v", w.Kind, w.Shards, tenths(j.Now.Sub(w.Since)), w.Err).Since = w.Since
	}
	for _, t := range j.Past.Hung {
		severity := operator.Note // no call waits
		if t.Waiting > 0 {
			severity = operator.Fault
		}
		j.self(severity, Turns, t.Kind+"/"+t.ID, "shardctl dump "+p.Name+" shows where it hangs",
			"%s/%s: a turn of %s, called by %s, has run for at least %v, and calls wait behind it: %d", t.Kind, bounded.ID(t.ID), t.Method, t.From, tenths(j.Now.Sub(t.Since)), t.Waiting).Since = t.Since
	}
	if p.BufferLimit > 0 && float64(p.BufferBytes) >= nearlyFull*float64(p.BufferLimit) {
		j.self(operator.Fault, Buffers, "", "shardctl shards shows for which types calls wait; or raise Config.Limits.BufferBytes",
			"waiting calls take %s of %s", Size(uint64(p.BufferBytes)), Size(uint64(p.BufferLimit)))
	}
	if n := j.Past.Overloaded; n > 0 {
		j.self(operator.Fault, Buffers, "refused", "shardctl top names the busiest entities and their callers",
			"calls were refused with ErrOverloaded within the last %v: %d", growthLasts, n)
	}
	if n := j.Past.OverQuota; n > 0 {
		j.self(operator.Fault, Clients, "", "shardctl events -grep client names them; start clients of one name at fewer processes, or give them other names",
			"messages and sessions over the limits of one client name were refused within the last %v: %d", growthLasts, n)
	}
	for _, e := range p.Expiries {
		left := e.Until.Sub(j.Now)
		soon := expirySoon
		if !e.From.IsZero() {
			soon = min(soon, e.Until.Sub(e.From)/expiryShare)
		}
		if left < soon {
			text := fmt.Sprintf("ends in %v", left.Round(time.Minute))
			if left <= 0 {
				text = "has ended"
			}
			severity := operator.Fault
			if e.Seen {
				severity = operator.Note
			}
			j.self(severity, Credentials, e.What, "renew it before then, and restart the processes that do not reload it",
				"%s %s, at %s", e.What, text, e.Until.UTC().Format(time.RFC3339))
		}
	}
}

func tenths(d time.Duration) time.Duration {
	const tenth = 100 * time.Millisecond
	return (d + tenth - 1).Truncate(tenth)
}

// Size returns a number of bytes for people.
func Size(bytes uint64) string {
	const units = "kMGTPE"
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/1000, 0
	for value >= 1000 {
		value, unit = value/1000, unit+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + units[unit:unit+1] + "B"
}
