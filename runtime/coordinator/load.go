package coordinator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A MemberLoad reports the processor time of a member and of its shards in its last interval. Each
// member that hosts types sends it every [ReportInterval], with the shards whose [LoadLevel] has
// changed. The first report in a term, and then each tenth, has all shards that the member holds. A
// lost report is not sent again.
type MemberLoad struct {
	Other  uint32 // thousandths of a processor that the process uses, without its shards; at most MaxCapacity
	Memory uint32 // thousandths of GOMEMLIMIT; 0 means no limit
	Shards []ShardLoad
}

// A ShardLoad is the processor time of one shard.
type ShardLoad struct {
	placement.ShardID
	Level LoadLevel
}

// A LoadLevel is a number of processors in steps of 19 %: level 0 is none, and level n is
// 2^((n-1)/4) millionths.
type LoadLevel uint8

const (
	loadUnit  = 1e-6
	loadSteps = 4 // for each doubling
)

// LevelOf returns the level nearest to a number of processors.
func LevelOf(processors float64) LoadLevel {
	if processors < loadUnit/2 {
		return 0
	}
	return LoadLevel(min(255, max(1, 1+math.Round(loadSteps*math.Log2(processors/loadUnit)))))
}

// Processors returns the number of processors.
func (l LoadLevel) Processors() float64 {
	if l == 0 {
		return 0
	}
	return loadUnit * math.Exp2(float64(l-1)/loadSteps)
}

// MaxReportedShards bounds the shards of a [MemberLoad], to about 64 KiB. A member with more shards
// sends several.
const MaxReportedShards = 16_384

// MaxCapacity bounds the capacity of a member, in thousandths of a processor.
const MaxCapacity = 10_000_000

const (
	// loadFresh is the weight of the latest report in a running mean. The latest three reports have
	// half of the weight together.
	loadFresh = 0.2063
	// loadSilent is the number of a member's missing reports that stops moves by load.
	loadSilent = 3
	// restLoads is the number of intervals that a shard stays at a new home: 5 min.
	restLoads = 30
	// loadsAnHour is the number of intervals in an hour.
	loadsAnHour = 360
	// byLoad begins the reasons of moves by load.
	byLoad = "by load: "
	// manyMembers is the number of members above which each reports less often.
	manyMembers = 1000
)

// ReportInterval returns the interval at which each of that many members sends a [MemberLoad]: 10
// s, or above 1,000 members 10 ms for each, so all send at most 100 reports a second.
func ReportInterval(members int) time.Duration { return reportInterval(LoadInterval, members) }

func reportInterval(of time.Duration, members int) time.Duration {
	return of * time.Duration(max(members, manyMembers)) / manyMembers
}

// interval returns the interval of the members' reports.
func (c *Coordinator) interval() time.Duration {
	return reportInterval(c.config.LoadInterval, len(c.view.Members))
}

// hour returns the time for which the budget of moves is.
func (c *Coordinator) hour() time.Duration { return loadsAnHour * c.config.LoadInterval }

// rest returns how long a shard at a new home does not move by load.
func (c *Coordinator) rest() time.Duration { return restLoads * c.config.LoadInterval }

// A load is what a coordinator knows of a member's load.
type load struct {
	at     time.Time // of the last report; zero: none in this term
	last   float64   // processors of the process itself, as last reported
	mean   float64   // of last
	memory float64   // share of GOMEMLIMIT
}

// mean returns of, a running mean, updated with value.
func mean(of, value float64) float64 { return of + loadFresh*(value-of) }

// onMemberLoad keeps a member's report until the next round.
func (c *Coordinator) onMemberLoad(from transport.Address, l MemberLoad) {
	m := c.members[from]
	if m.load.at.IsZero() {
		m.load.mean = float64(l.Other) / 1000
	}
	m.load.at, m.load.last, m.load.memory = c.now, float64(l.Other)/1000, float64(l.Memory)/1000
	for _, r := range l.Shards {
		if s := c.shard(r.ShardID); s != nil && s.home == from {
			s.reported = 1 + uint16(r.Level)
		}
	}
	c.loaded = true
}

// byLoad reports whether a type's strategy may look at loads.
func (k *entityType) byLoad() bool {
	switch k.place.(type) {
	case placement.LeastShards, placement.ConsistentHash, placement.Beside:
		return false
	}
	return !k.isPool()
}

func (c *Coordinator) anyByLoad() bool {
	return slices.ContainsFunc(c.names, func(name string) bool { return c.types[name].byLoad() })
}

// addUp ends a round of loads: it adds the reports to the means.
func (c *Coordinator) addUp() {
	if !c.loaded || c.now.Before(c.sumAt) || !c.anyByLoad() {
		return
	}
	c.loaded, c.plan, c.sumAt = false, true, c.now.Add(c.interval())
	for _, a := range c.order {
		m := c.members[a]
		m.load.mean = mean(m.load.mean, m.load.last)
	}
	for _, name := range c.names {
		k := c.types[name]
		sum, n := 0.0, 0
		for i := range k.shards {
			s := &k.shards[i]
			if s.reported == 0 {
				continue
			}
			value := LoadLevel(s.reported - 1).Processors()
			if !s.measured {
				s.measured, s.cost = true, float32(value)
			}
			s.cost = float32(mean(float64(s.cost), value))
			sum += float64(s.cost)
			n++
		}
		k.mean = sum / float64(max(1, n))
	}
}

// A spending counts the moves by load that began in the last 60 minutes or in the current one, and were
// not given up.
type spending struct {
	begun time.Time // its minutes are counted from then on
	last  int       // the number of the current minute
	moves [61]int   // by number of the minute, modulo 61
}

// at returns the count of now's minute, and forgets those of more than an hour before it.
func (s *spending) at(now time.Time, hour time.Duration) *int {
	if s.begun.IsZero() {
		s.begun = now
	}
	n, minute := len(s.moves), int(now.Sub(s.begun)/(hour/60))
	for i := max(s.last+1, minute-n+1); i <= minute; i++ {
		s.moves[i%n] = 0
	}
	s.last = max(s.last, minute)
	return &s.moves[minute%n]
}

// refund takes back a move that began at that time and was given up.
func (s *spending) refund(began, now time.Time, hour time.Duration) {
	s.at(now, hour)
	if now.Sub(began) <= hour {
		*s.at(began, hour)--
	}
}

// sum returns the moves of the last hour.
func (s *spending) sum() (sum int) {
	for _, n := range s.moves {
		sum += n
	}
	return sum
}

// costOf returns the processors that a shard uses.
func (k *entityType) costOf(s *shard) float64 {
	if !s.measured {
		return k.mean
	}
	return float64(s.cost)
}

// silent returns a member of homes whose reports have stopped or not begun.
func (c *Coordinator) silent(homes []placement.Load) (name string, is bool) {
	for i := range homes {
		if at := c.members[homes[i].Node].load.at; at.IsZero() || c.now.Sub(at) > loadSilent*c.interval() {
			return homes[i].Node.Name, true
		}
	}
	return "", false
}

// planByLoad returns the moves of a type's shards by load, with their reasons.
func (c *Coordinator) planByLoad(k *entityType, w placement.LoadWeighted, homes []placement.Load, limit int) (transfers []placement.Transfer, why []string) {
	if name, is := c.silent(homes); is {
		k.still, k.balance.Moving = fmt.Sprintf("%s has reported no load in the last %v", name, loadSilent*c.interval()), false
		return nil, nil
	}
	spent := k.spent.at(c.now, c.hour())
	k.balance.Budget = w.Hourly(len(k.shards)) - float64(k.spent.sum())
	moves, after, still := w.Plan(homes, k.balance, limit)
	k.still, k.balance = still, after
	if c.view.Converged { // otherwise moves are refused
		*spent += len(moves)
	}
	for _, m := range moves {
		transfers = append(transfers, m.Transfer)
		why = append(why, fmt.Sprintf("%v; %.0f of %.0f left", m, math.Floor(max(0, m.Left)), math.Floor(w.Hourly(len(k.shards)))))
	}
	return transfers, why
}

// stays tells operators why neither the shard nor others of its type move by load. It is "" for
// shards that move, lack a home, or are not placed by load.
func (c *Coordinator) stays(k *entityType, s *shard) string {
	if _, ok := k.place.(placement.LoadWeighted); !ok || k.isPool() || s.move != nil || s.home.IsZero() {
		return ""
	}
	var b strings.Builder
	if s.measured {
		fmt.Fprintf(&b, "; it uses %.4g processors", s.cost)
	}
	if until := s.since.Add(c.rest()); !s.since.IsZero() && c.now.Before(until) {
		fmt.Fprintf(&b, "; by load it does not move before %s", until.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(&b, "; of its type: %s", cmp.Or(k.still, "no load has been measured yet"))
	return b.String()
}
