package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type entityType struct {
	info   TypeInfo
	place  placement.Strategy
	pins   Pins
	shards []shard // shards[i] has number info.Shards+i
	wanted bool    // calls need the type
	opened bool    // allocated before, so the minimum of members no longer counts
	count  int     // of a pool: its instances
	wants  int     // of a pool: the instances that it would have if its members had room for them
	load   scaling // of a pool
	lacks  int     // its shards without a home, while a plan is made
	// load.go: set if the type is placed by load.
	mean    float64 // mean processors of a measured shard
	balance placement.Balance
	spent   spending // its moves by load
	still   string   // why no more shards move by load, for people
}

// A shard is the coordinator's knowledge of one shard. The fields that each plan reads are
// together.
type shard struct {
	id    placement.ShardID
	home  transport.Address // zero: none
	epoch placement.Epoch   // of the table's entry; 0 means never in a table
	last  placement.Epoch   // the highest ever heard of or given out
	why   string            // the reason for its home, for people

	at   *member // the home; nil: none
	move *move
	// load.go: its load.
	cost     float32 // processors, a mean; see costOf
	reported uint16  // one more than its last reported LoadLevel; 0 means none
	measured bool    // cost has a measured value

	rest  time.Time // the shard does not move before this time
	since time.Time // when its home began, or when its last move by load was given up; zero: before this term
}

func (k *entityType) homeless() int {
	n := 0
	for _, s := range k.kept() {
		if s.home.IsZero() {
			n++
		}
	}
	return n
}

func (t TypeInfo) isPool() bool { return t.Pool != Pool{} }

func (k *entityType) pinned(shard uint32, homes []placement.Load) (transport.Address, bool) {
	if len(k.pins.Pins) == 0 {
		return transport.Address{}, false
	}
	name := k.pins.at(shard)
	if name == "" {
		return transport.Address{}, false
	}
	for _, h := range homes {
		if h.Node.Name == name {
			return h.Node, true
		}
	}
	return transport.Address{}, false
}

func (s *shard) goesTo() transport.Address {
	if s.move != nil {
		return s.move.to
	}
	return s.home
}

// shard returns the shard with that id, or nil.
func (c *Coordinator) shard(id placement.ShardID) *shard {
	k := c.types[id.Kind]
	if k == nil || id.Shard < k.info.Shards || id.Shard >= 2*k.info.Shards {
		return nil
	}
	return &k.shards[id.Shard-k.info.Shards]
}

func (c *Coordinator) addType(info TypeInfo) *entityType {
	k := &entityType{info: info, shards: make([]shard, info.Shards), wanted: c.asked[info.Name]}
	for i := range k.shards {
		k.shards[i].id = placement.ShardID{Kind: info.Name, Shard: info.Shards + uint32(i)}
	}
	c.shards += len(k.shards)
	delete(c.asked, info.Name)
	c.types[info.Name] = k
	c.tune(k, info.Tuning)
	i, _ := slices.BinarySearch(c.names, info.Name)
	c.names = slices.Insert(c.names, i, info.Name)
	return k
}

// learn compares a node's description of a type with the cluster's. Only hosts add a new type.
func (c *Coordinator) learn(info TypeInfo) error {
	k := c.types[info.Name]
	if k == nil {
		if !info.Hosts {
			return nil
		}
		if err := placement.CheckShards(int(info.Shards)); err != nil || info.Name == "" {
			return fmt.Errorf("register type %q: %d shards (want a name and a power of two up to %d)", info.Name, info.Shards, placement.MaxShards)
		}
		if c.shards+int(info.Shards) > maxShards {
			return fmt.Errorf("register type %s: its %d shards and the cluster's %d are together more than %d (use fewer shards a type)",
				info.Name, info.Shards, c.shards, maxShards)
		}
		c.addType(info)
		return nil
	}
	have := k.info
	have.Hosts, have.Tuning = info.Hosts, info.Tuning
	if have != info {
		return fmt.Errorf("register type %s: %s, but the cluster has %s (both sides must run the same contract)",
			info.Name, describe(info), describe(have))
	}
	if info.isPool() != k.info.isPool() {
		return fmt.Errorf("register type %s: one version has it as a pool, the other as an entity (both sides must run the same contract)", info.Name)
	}
	if info.Hosts && k.info.Tuning != info.Tuning {
		c.tune(k, info.Tuning)
		c.event(Event{What: TypeTuned, Shard: placement.ShardID{Kind: info.Name}, Reason: info.Tuning.String()})
	}
	return nil
}

func (c *Coordinator) tune(k *entityType, t Tuning) {
	k.info.Tuning = t
	place, ok := c.config.Strategies.find(t.Allocation, c.config.Strategy)
	if !ok {
		c.event(Event{
			What: StrategyRefused, Shard: placement.ShardID{Kind: k.info.Name},
			Reason: fmt.Sprintf("%s does not know %s and uses %v (host the type there too, with shard.Proxy)", c.config.Self.Name, t.Allocation, place),
		})
	}
	k.place = place
}

// String returns the settings for people.
func (t Tuning) String() string {
	text := fmt.Sprintf("{Allocation:%s MaxMoves:%d MinHosts:%d}", t.Allocation, t.MaxMoves, t.MinHosts)
	if t.Pool != (Pool{}) {
		text += fmt.Sprintf(" %+v", t.Pool)
	}
	return text
}

func (c *Coordinator) nextEpoch(s *shard) placement.Epoch {
	e := s.last.Next(c.config.Term.Number)
	if e == 0 {
		// Unreachable while terms grow: recovery stops at a claim of a later term.
		invariant.Failf("shard %v: no epoch of term %v is above %v", s.id, c.config.Term, s.last)
	}
	s.last = e
	return e
}

func describe(k TypeInfo) string {
	return fmt.Sprintf("%s with %d shards by %s", k.Package, k.Shards, k.HashName)
}

// Strategies are a user's own strategies by name. Lookups also find those of package placement.
type Strategies map[string]placement.Strategy

func (s Strategies) find(name string, fallback placement.Strategy) (_ placement.Strategy, ok bool) {
	if name == "" {
		return fallback, true
	}
	if own := s[name]; own != nil {
		return own, true
	}
	if known, ok := placement.ParseStrategy(name); ok {
		return known, true
	}
	return fallback, false
}

// CheckStrategyName returns an error for a name that is not valid in a message.
func CheckStrategyName(name string) error {
	if name == "" || len(name) > maxTypeBytes || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return fmt.Errorf("check strategy name %.40q: want 1 to %d bytes of text", name, maxTypeBytes)
	}
	return nil
}
