package dashboard

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/internal/ops/verdict"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
)

// A snapshot is the answer of /api/cluster.
type snapshot struct {
	Health clusterview.Health `json:"health"`
	// Error is the reason why the latest request failed; other fields are then from an earlier
	// answer.
	Error       string             `json:"error,omitempty"`
	At          time.Time          `json:"at"` // when it was asked
	SeenBy      string             `json:"seen_by"`
	Leader      string             `json:"leader"`
	Coordinator string             `json:"coordinator"`
	Members     []memberRow        `json:"members"` // in the order of their numbers in shard maps
	Types       []typeRow          `json:"types"`
	Singletons  []singletonRow     `json:"singletons"`
	Moves       []moveRow          `json:"moves"`
	Paused      string             `json:"paused,omitempty"` // why no shards are rebalanced
	Rates       *clusterview.Rates `json:"rates,omitempty"`
	Counters    map[string]uint64  `json:"counters"`
	Events      []eventRow         `json:"events"`   // the oldest first
	Expiries    []expiryRow        `json:"expiries"` // of certificates and credentials, the first to end first
	trends      clusterview.Trends
	maps        map[string]shardMap
	processes   map[string]admin.Fact // by name
}

// newSnapshot makes the lists empty, not nil: the page's scripts cannot filter JSON null.
func newSnapshot() *snapshot {
	return &snapshot{
		Members: []memberRow{}, Types: []typeRow{}, Singletons: []singletonRow{}, Moves: []moveRow{}, Counters: map[string]uint64{}, Events: []eventRow{}, Expiries: []expiryRow{},
	}
}

type memberRow struct {
	Name        string   `json:"name"`
	Incarnation string   `json:"incarnation"`
	Status      string   `json:"status"`
	Reachable   bool     `json:"reachable"`
	Evidence    string   `json:"evidence,omitempty"`
	Age         uint32   `json:"age"`
	Roles       []string `json:"roles"`
	Hosts       []string `json:"hosts"`
	Shards      int      `json:"shards"`
	Entities    int      `json:"entities"`
	Silent      string   `json:"silent,omitempty"` // why it did not answer
	Used        float64  `json:"used"`             // processors
	Capacity    float64  `json:"capacity"`
	Release     string   `json:"release"`
	Zone        string   `json:"zone"`
	address     transport.Address
}

type typeRow struct {
	Name     string `json:"name"`
	Shards   int    `json:"shards"`
	Homeless int    `json:"homeless"`
	Waiting  int    `json:"waiting"` // calls
	Entities int    `json:"entities"`
	Active   int    `json:"active"`
	// Instances and Wanted count a pool's instances.
	Instances int     `json:"instances"`
	Wanted    int     `json:"wanted"`
	Durable   bool    `json:"durable"`
	Used      float64 `json:"used"` // processors
}

type expiryRow struct {
	Node  string    `json:"node"`
	What  string    `json:"what"`
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until"`
	Seen  bool      `json:"seen"` // seen earlier; perhaps renewed since
}

type singletonRow struct {
	Name string `json:"name"`
	Node string `json:"node,omitempty"`
	Why  string `json:"why,omitempty"`
}

type moveRow struct {
	Type    string  `json:"type"`
	Shard   uint32  `json:"shard"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	Why     string  `json:"why"`
	Phase   string  `json:"phase"`
	Seconds float64 `json:"seconds"`
}

type eventRow struct {
	Number uint64    `json:"number"` // counted by the handler, beginning with its start time
	Time   time.Time `json:"time"`
	Level  string    `json:"level"`
	Node   string    `json:"node"`
	Also   int       `json:"also"` // number of other members with the same line
	Text   string    `json:"text"`
	Attrs  string    `json:"attrs"`
}

// A shardMap is the answer of /api/shards: the home of each shard of a type.
type shardMap struct {
	Type   string   `json:"type"`
	First  uint32   `json:"first"`  // number of the first shard
	Homes  []int16  `json:"homes"`  // indexes into Members; -1: none
	Moving []uint32 `json:"moving"` // the numbers of moving or opening shards
	// Used are the processors that the shards use, and Entities the numbers of their entities.
	Used     []float64 `json:"used"`
	Entities []uint32  `json:"entities"`
}

func emptyMap(kind string, first, shards uint32) shardMap {
	m := shardMap{kind, first, make([]int16, shards), []uint32{}, make([]float64, shards), make([]uint32, shards)}
	for i := range m.Homes {
		m.Homes[i] = noHome
	}
	return m
}

const noHome = -1

func (c *snapshot) eventsAfter(number uint64) []eventRow {
	i := sort.Search(len(c.Events), func(i int) bool { return c.Events[i].Number > number })
	return c.Events[i:]
}

func (c *snapshot) mapOf(kind string) shardMap {
	if m, ok := c.maps[kind]; ok {
		return m
	}
	return emptyMap(kind, 0, 0)
}

func (c *snapshot) setMembers(v admin.View) {
	c.SeenBy, c.Leader, c.Coordinator = v.Self.Name, v.Leader.Name, v.Coordinator.Name
	c.Members, c.Singletons = []memberRow{}, []singletonRow{}
	for _, m := range v.Members {
		c.Members = append(c.Members, memberRow{
			Name: m.Name, Incarnation: strings.TrimPrefix(m.Address.String(), m.Name+"#"), Status: m.Status.String(), Reachable: m.Reachable, Evidence: m.Evidence,
			Age: m.Age, Roles: append([]string{}, m.Roles...), Hosts: append([]string{}, m.Hosts...), address: m.Address,
		})
	}
	if c.Paused = ""; !v.Pause.IsZero() {
		c.Paused = fmt.Sprintf("rebalancing is paused by %s since %s", v.Pause.By, v.Pause.At.UTC().Format(time.RFC3339))
	}
	for _, s := range v.Singletons {
		c.Singletons = append(c.Singletons, singletonRow{s.Kind, s.Node.Name, s.Why})
	}
}

// setShards stores answers about shards. Call it after setMembers.
func (c *snapshot) setShards(all []admin.NodeShards) {
	types := map[string]*typeRow{}
	c.maps = map[string]shardMap{}
	for _, n := range all {
		for _, t := range n.Types {
			row := types[t.Kind]
			if row == nil {
				row = &typeRow{Name: t.Kind}
				types[t.Kind] = row
			}
			if m := c.maps[t.Kind]; len(m.Homes) < int(t.Shards) {
				c.maps[t.Kind] = emptyMap(t.Kind, t.Shards, t.Shards)
				row.Shards = int(t.Shards)
			}
			row.Homeless = max(row.Homeless, len(t.Homeless))
			row.Waiting += int(t.Waiting)
			row.Instances, row.Wanted, row.Durable = max(row.Instances, int(t.Instances)), max(row.Wanted, int(t.Wanted)), row.Durable || t.Durable
		}
	}
	for _, n := range all {
		at := slices.IndexFunc(c.Members, func(m memberRow) bool { return m.address == n.Node })
		if at < 0 {
			continue
		}
		if n.Err != nil {
			c.Members[at].Silent = n.Err.Error()
		}
		for _, t := range n.Types {
			c.addHeld(int16(at), t, types[t.Kind])
		}
	}
	c.Types = []typeRow{}
	for _, name := range verdict.SortedKeys(types) {
		c.Types = append(c.Types, *types[name])
	}
}

func (c *snapshot) addHeld(at int16, t admin.Type, row *typeRow) {
	m := c.maps[t.Kind]
	for _, s := range t.Held {
		row.Waiting += int(s.Waiting)
		row.Entities += int(s.Entities)
		row.Active += int(s.Active)
		row.Used += s.Used
		c.Members[at].Entities += int(s.Entities)
		i := int(s.Shard) - int(m.First)
		if i < 0 || i >= len(m.Homes) || s.State == "forwarding" {
			continue
		}
		if s.State != "active" {
			m.Moving = append(m.Moving, s.Shard)
		}
		if s.State == "active" || s.State == "draining" || s.State == "sent" || m.Homes[i] == noHome {
			m.Homes[i], m.Used[i], m.Entities[i] = at, math.Round(s.Used*1e4)/1e4, s.Entities
			c.Members[at].Shards++
		}
	}
	c.maps[t.Kind] = m
}

// setFacts stores facts of processes. Call it after setMembers.
func (c *snapshot) setFacts(all []admin.NodeFact) {
	c.processes, c.Expiries = map[string]admin.Fact{}, []expiryRow{}
	for _, n := range all {
		at := slices.IndexFunc(c.Members, func(m memberRow) bool { return m.address == n.Node })
		if at < 0 || n.Err != nil {
			continue
		}
		c.processes[n.Node.Name] = n.Fact
		m := &c.Members[at]
		if m.Release = n.Release; n.Load != nil {
			m.Used, m.Capacity, m.Zone = n.Load.Used, n.Load.Capacity, n.Load.Zone
		}
		for _, e := range n.Expiries {
			c.Expiries = append(c.Expiries, expiryRow{n.Node.Name, e.What, e.From, e.Until, e.Seen})
		}
	}
	slices.SortStableFunc(c.Expiries, func(a, b expiryRow) int { return a.Until.Compare(b.Until) })
}

func (c *snapshot) setMoves(all []admin.Move) {
	c.Moves = []moveRow{}
	for _, m := range all {
		c.Moves = append(c.Moves, moveRow{m.Kind, m.Shard, m.From.Name, m.To.Name, m.Why, m.Phase, m.For.Seconds()})
	}
}

func (c *snapshot) setCounters(all []admin.NodeCounters) {
	c.Counters = map[string]uint64{}
	for _, n := range all {
		for reason, count := range n.Counters { //arch:order-free they are added
			c.Counters[reason] += count
		}
	}
}
