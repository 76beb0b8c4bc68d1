package remember

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// world is some machines over a channel that loses, repeats and reorders, and
// what must be true of them.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	nodes   map[transport.Address]*Machine // alive
	next    int
	mail    []parcel
	home    map[placement.ShardID]transport.Address
	epoch   placement.Epoch
	ticket  Ticket
	tickets map[Ticket]Add
	// safe are the ids that were added and not removed since, by shard.
	safe  map[placement.ShardID]map[string]bool
	codec bool
}

type parcel struct {
	at       time.Time
	from, to transport.Address
	message  Message
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1000, 0), codec: seed%4 == 0,
		nodes: map[transport.Address]*Machine{}, home: map[placement.ShardID]transport.Address{},
		tickets: map[Ticket]Add{}, safe: map[placement.ShardID]map[string]bool{},
	}
}

func (w *world) addresses() []transport.Address {
	return slices.SortedFunc(maps.Keys(w.nodes), transport.Address.Compare)
}

func (w *world) any() transport.Address {
	all := w.addresses()
	return all[w.rng.IntN(len(all))]
}

// views tells every machine which members there are.
func (w *world) views() {
	for _, a := range w.addresses() {
		var v View
		for _, o := range w.addresses() {
			if o != a {
				v.Members = append(v.Members, Member{o, true, []string{"Cart"}})
			}
		}
		w.step(a, v)
	}
}

func (w *world) join() {
	w.next++
	a := transport.Address{Name: fmt.Sprintf("n%02d", w.next), Incarnation: uint64(w.next)}
	w.nodes[a] = New(Config{MaxBatch: 200 + w.rng.IntN(400), Kinds: map[string]Kind{"Cart": {Replicas: 1 + w.rng.IntN(2), Max: 60}}})
	w.views()
}

func (w *world) step(a transport.Address, in Input) {
	m := w.nodes[a]
	if m == nil {
		return
	}
	out := m.Step(w.now, in)
	if err := m.Check(); err != nil {
		w.t.Fatalf("%s after %T: %v", a.Name, in, err)
	}
	for _, e := range out.Send {
		w.post(a, e)
	}
	for _, d := range out.Done {
		add := w.tickets[d.Ticket]
		if d.Err == nil && w.home[add.ShardID] == a && w.safe[add.ShardID] != nil {
			if _, pending := w.tickets[d.Ticket]; pending {
				w.safe[add.ShardID][add.ID] = true
			}
		}
		delete(w.tickets, d.Ticket)
	}
}

// post sends a message, perhaps twice, perhaps not at all.
func (w *world) post(from transport.Address, e Envelope) {
	msg := e.Message
	if w.codec {
		b, err := Encode(msg)
		if err != nil {
			w.t.Fatal(err)
		}
		if msg, err = Decode(b); err != nil {
			w.t.Fatal(err)
		}
	}
	for n := w.rng.IntN(10); n < 9; n += 8 { // 0: twice, 9: lost
		w.mail = append(w.mail, parcel{w.now.Add(time.Duration(1+w.rng.IntN(20)) * time.Millisecond), from, e.To, msg})
	}
}

// pass lets time go by, and messages arrive.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(time.Millisecond)
		var due []parcel
		w.mail = slices.DeleteFunc(w.mail, func(p parcel) bool {
			if p.at.After(w.now) {
				return false
			}
			due = append(due, p)
			return true
		})
		for _, p := range due {
			if w.nodes[p.from] != nil { // else it came from who was removed: the machine knows
				w.step(p.to, Receive{p.from, p.message})
			}
		}
		if w.now.UnixMilli()%50 == 0 {
			for _, a := range w.addresses() {
				w.step(a, Tick{})
			}
		}
	}
}

func (w *world) open(id placement.ShardID, at transport.Address, ids []string, known bool) {
	w.epoch++
	w.home[id] = at
	if w.safe[id] == nil {
		w.safe[id] = map[string]bool{}
	}
	w.step(at, Open{id, w.epoch, ids, known})
}

// crash removes a node. Its shards open at other nodes, which must have all ids that were safe.
func (w *world) crash(a transport.Address) {
	delete(w.nodes, a)
	w.views()
	var lost []placement.ShardID
	for id, o := range w.home {
		if o == a {
			lost = append(lost, id)
		}
	}
	slices.SortFunc(lost, placement.ShardID.Compare)
	for _, id := range lost {
		w.open(id, w.any(), nil, false)
	}
}

// check compares every home's set with the ids that were safe.
func (w *world) check(what string) {
	w.t.Helper()
	for id, a := range w.home {
		ids, known := w.nodes[a].IDs(id)
		if !known {
			w.t.Fatalf("%s: %v at %s is still recalled", what, id, a.Name)
		}
		for e := range w.safe[id] {
			if !slices.Contains(ids, e) {
				w.t.Fatalf("%s: %v at %s has lost %q (has %v)", what, id, a.Name, e, ids)
			}
		}
	}
}

func (w *world) act(shards []placement.ShardID) {
	id := shards[w.rng.IntN(len(shards))]
	at, e := w.home[id], fmt.Sprint("e", w.rng.IntN(80))
	switch n := w.rng.IntN(20); {
	case n < 13:
		w.ticket++
		w.tickets[w.ticket] = Add{id, e, w.ticket}
		w.step(at, w.tickets[w.ticket])
	case n < 17:
		delete(w.safe[id], e)
		for t, a := range w.tickets {
			if a.ShardID == id && a.ID == e {
				delete(w.tickets, t)
			}
		}
		w.step(at, Remove{id, e})
	case n < 18: // under a new epoch, where it is
		w.epoch++
		w.step(at, Open{ShardID: id, Epoch: w.epoch})
	default: // it moves, with its ids if they are known
		ids, known := w.nodes[at].IDs(id)
		if !known {
			return
		}
		for t, a := range w.tickets {
			if a.ShardID == id {
				delete(w.tickets, t) // their turns have ended before
			}
		}
		to := w.any()
		if to == at {
			return
		}
		w.step(at, Close{id})
		w.open(id, to, ids, w.rng.IntN(3) > 0)
	}
}

// TestRandom lets homes crash one at a time: no id that was safe is lost, and in
// the end exactly the replicas keep exactly what the homes have.
func TestRandom(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 3 + w.rng.IntN(3) {
				w.join()
			}
			var shards []placement.ShardID
			for i := range uint32(6) {
				id := placement.ShardID{Kind: "Cart", Shard: 8 + i}
				shards = append(shards, id)
				w.open(id, w.any(), nil, false)
			}
			for range 8 {
				for range 40 {
					w.act(shards)
					w.pass(time.Duration(w.rng.IntN(8)) * time.Millisecond)
				}
				if w.rng.IntN(2) == 0 {
					w.pass(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
				}
				w.settled() // one crash at a time: a second one may take the last copy
				w.crash(w.any())
				w.pass(10 * time.Second)
				w.check("after a crash")
				w.join()
			}
			w.pass(10 * time.Second)
			w.end()
		})
	}
}

// settled waits until every set has a replica again. It does not wait for ids that are added
// meanwhile.
func (w *world) settled() {
	for range 100 {
		done := true
		for id, a := range w.home {
			m := w.nodes[a]
			h := m.homes[id]
			ready := h.recall == nil
			for _, k := range h.replicas {
				ready = ready && m.outboxes[k].queues[id].ready
			}
			done = done && ready
		}
		if done {
			return
		}
		w.pass(100 * time.Millisecond)
	}
	w.t.Fatal("the replicas never have all sets")
}

// end checks which nodes keep which ids when nothing happens any more.
func (w *world) end() {
	w.check("at the end")
	for a, m := range w.nodes {
		for id, k := range m.kept {
			h := w.nodes[w.home[id]].homes[id]
			switch {
			case !slices.Contains(h.replicas, a):
				w.t.Errorf("%s keeps %v, although it is no replica", a.Name, id)
			case k.filling != nil || k.epoch != h.epoch || k.seq != h.seq || !maps.Equal(k.ids, h.ids):
				w.t.Errorf("%s keeps %v of %v with change %d, want %v with change %d", a.Name, id, k.epoch, k.seq, h.epoch, h.seq)
			}
		}
		for id, h := range m.homes {
			if w.home[id] != a || len(h.waits) > 0 {
				w.t.Errorf("%s: %v is at %s, and %d wait", a.Name, id, w.home[id].Name, len(h.waits))
			}
			for _, k := range h.replicas {
				if w.nodes[k].kept[id] == nil {
					w.t.Errorf("%s keeps nothing of %v", k.Name, id)
				}
			}
		}
	}
}
