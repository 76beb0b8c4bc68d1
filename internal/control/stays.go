package control

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/runtime/placement"
)

const (
	// staysEvery is how long moves that were given up are gathered for one line of
	// the log.
	staysEvery = time.Second
	// maxStays bounds the reasons that are gathered.
	maxStays = 16
)

// stays gathers moves that were given up: when nodes leave together there are many, for one
// reason.
type stays struct {
	log func(l Level, text string, args ...any)
	all map[stayWhy]*stay
	at  time.Time // when to log; zero means nothing to log
}

type stayWhy struct{ kind, reason string }

type stay struct {
	shards int
	first  placement.ShardID
	epoch  placement.Epoch
}

// add takes a move in, to be logged within staysEvery.
func (s *stays) add(id placement.ShardID, epoch placement.Epoch, reason string, now time.Time) {
	s.log(Debug, "shard stays: its move was given up", "shard", id.String(), "epoch", epoch.String(), "reason", bounded.Text(reason))
	why := stayWhy{id.Kind, bounded.Text(reason)}
	if s.all[why] == nil && len(s.all) == maxStays {
		s.flush()
	}
	if len(s.all) == 0 {
		s.all, s.at = map[stayWhy]*stay{}, now.Add(staysEvery)
	}
	if s.all[why] == nil {
		s.all[why] = &stay{first: id, epoch: epoch}
	}
	s.all[why].shards++
}

// tick logs the moves that have gathered, when it is time.
func (s *stays) tick(now time.Time) {
	if due(s.at, now) {
		s.flush()
	}
}

func (s *stays) flush() {
	order := slices.SortedFunc(maps.Keys(s.all), func(a, b stayWhy) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.reason, b.reason))
	})
	for _, why := range order {
		one := s.all[why]
		s.log(Info, "shards stay: their moves were given up", "kind", why.kind, "shards", one.shards,
			"first", one.first.String(), "epoch", one.epoch.String(), "reason", why.reason)
	}
	s.all, s.at = nil, time.Time{}
}
