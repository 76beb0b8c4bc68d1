package coordinator

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// A PoolLoad reports how busy the instances of a pool at one member are. Each host sends it every
// 10 s; a lost report is not sent again.
type PoolLoad struct {
	Type      string
	Instances uint32 // the pool's instances at the member
	Busy      uint32 // thousandths of the time in which they ran a turn, summed over the instances; at most 1000 for each
	Waiting   uint32 // calls in their mailboxes at the end of the interval
}

// LoadInterval is the interval at which members send a [PoolLoad] and the coordinator evaluates
// loads.
const LoadInterval = 10 * time.Second

// The load of a pool sets its number of instances. The load is u, the share of time in which the
// instances ran turns, as the mean of loadMean rounds. If u is above loadHigh, the pool grows so
// much that u becomes loadGoal, but at most doubles. If u was below loadLow in all of loadCalm
// means, a tenth of the instances end, but not so many that u would be above loadGoal. After a
// change the rounds begin again.
//
// One round is enough if its u is above loadFull and at least as many calls wait as there are
// instances. The pool then grows so much that u would be loadGoal if each running or waiting call
// had an instance, but at most to loadLeap times its size. It does not grow while the calls become
// fewer, because these have waited since before the last change.
const (
	loadMean = 3
	loadCalm = 30
	loadHigh = 0.7
	loadLow  = 0.4
	loadGoal = 0.6
	loadFull = 0.9
	loadLeap = 4
	// loadLate is how many intervals old a counted report may be.
	loadLate = 2.5
)

// A scaling is the number of instances that the load of a pool needs.
type scaling struct {
	want    int // 0: not known yet
	rounds  []float64
	calls   float64 // running or waiting in the last round
	reports map[transport.Address]loadReport
}

type loadReport struct {
	at        time.Time
	instances int
	busy      int // sum of the instances' shares, in thousandths
	waiting   int // calls
}

func (s *scaling) take(from transport.Address, at time.Time, l PoolLoad) {
	if s.reports == nil {
		s.reports = map[transport.Address]loadReport{}
	}
	s.reports[from] = loadReport{at, int(l.Instances), int(l.Busy), int(l.Waiting)}
}

// look ends a round of a pool with n instances, and reports whether want has changed. Instances of
// silent members count with the mean.
func (s *scaling) look(now time.Time, interval time.Duration, n int) bool {
	instances, thousandths, waits := 0, 0, 0
	for a, r := range s.reports { //arch:order-free sums of integers
		if float64(now.Sub(r.at)) > loadLate*float64(interval) {
			delete(s.reports, a)
			continue
		}
		instances += r.instances
		thousandths += r.busy
		waits += r.waiting
	}
	busy, waiting := float64(thousandths)/1000, float64(waits)
	if instances == 0 || n == 0 {
		s.rounds = nil
		return false
	}
	s.rounds = append(s.rounds, math.Round(1000*busy/float64(instances))/1000)
	s.rounds = s.rounds[max(0, len(s.rounds)-loadCalm-loadMean+1):]
	next := s.next(n)
	share := float64(n) / float64(instances) // silent members count with the mean
	calls := math.Round(share * (busy + waiting))
	if calls >= 0.95*s.calls && busy > loadFull*float64(instances) && waiting >= float64(instances) {
		next = max(next, min(int(math.Ceil(calls/loadGoal)), loadLeap*n))
	}
	s.calls = calls
	if next == s.want {
		return false
	}
	s.want, s.rounds = next, nil
	return true
}

// next returns how many instances the rounds so far need.
func (s *scaling) next(n int) int {
	means := s.means()
	if len(means) == 0 {
		return s.want
	}
	if u := means[len(means)-1]; u > loadHigh {
		return max(s.want, min(share(n, u), 2*n))
	}
	most := 0.0
	for _, u := range means {
		most = max(most, u)
	}
	if len(means) < loadCalm || most >= loadLow {
		return s.want
	}
	return min(s.want, max(n-max(1, n/10), share(n, most), 1))
}

// share returns the number of instances with which the share u of n instances becomes loadGoal.
func share(n int, u float64) int { return int(math.Ceil(float64(n)*u/loadGoal - 1e-9)) }

// means returns the means of loadMean rounds each, the oldest first.
func (s *scaling) means() (all []float64) {
	for i := loadMean; i <= len(s.rounds); i++ {
		sum := 0.0
		for _, u := range s.rounds[i-loadMean : i] {
			sum += u
		}
		all = append(all, sum/loadMean)
	}
	return all
}

// String describes the scaling for people.
func (s *scaling) String() string {
	if means := s.means(); len(means) > 0 {
		return fmt.Sprintf("%d by load, busy %.2f of the time", s.want, means[len(means)-1])
	}
	return fmt.Sprintf("%d by load", s.want)
}

// onPoolLoad keeps a member's report until the next round.
func (c *Coordinator) onPoolLoad(from transport.Address, l PoolLoad) {
	if k := c.types[l.Type]; k != nil && k.isPool() && c.members[from].hosts[l.Type] {
		k.load.take(from, c.now, l)
	}
}

// weigh evaluates the loads of all pools, members and shards, every LoadInterval.
func (c *Coordinator) weigh() {
	needed := slices.ContainsFunc(c.names, func(name string) bool { return c.types[name].isPool() || c.types[name].byLoad() })
	switch {
	case !needed || !c.loadAt.IsZero() && c.now.Before(c.loadAt):
		return
	case c.loadAt.IsZero():
		c.loadAt = c.now.Add(c.config.LoadInterval)
		return
	}
	c.loadAt = c.now.Add(c.config.LoadInterval)
	for _, name := range c.names {
		if k := c.types[name]; k.isPool() && k.load.look(c.now, c.config.LoadInterval, k.count) {
			c.plan = true
		}
	}
	c.addUp()
}

// Wanted returns how many instances each pool should have, by type, even if the members lack room.
func (c *Coordinator) Wanted() map[string]int {
	all := map[string]int{}
	for _, name := range c.names {
		if k := c.types[name]; k.isPool() && k.wants > 0 {
			all[name] = k.wants
		}
	}
	return all
}
