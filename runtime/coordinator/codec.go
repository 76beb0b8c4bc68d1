package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// format is the version of the encoding. Added fields do not change it: readers skip unknown ones.
const format = 1

// Encode encodes a message as defined in internal/wire/coordinator.proto.
func Encode(m Message) ([]byte, error) {
	w := &wire.CoordinatorMessage{Format: format}
	switch m := m.(type) {
	case Register:
		w.Body = &wire.CoordinatorMessage_Register{Register: registerToWire(m)}
	case Registered:
		w.Body = &wire.CoordinatorMessage_Registered{Registered: &wire.CoordinatorRegistered{Term: termToWire(m.Term), Seq: m.Seq}}
	case TableStatus:
		w.Body = &wire.CoordinatorMessage_TableStatus{TableStatus: &wire.CoordinatorTableStatus{Version: versionToWire(m.Version)}}
	case TableRequest:
		w.Body = &wire.CoordinatorMessage_TableRequest{TableRequest: &wire.CoordinatorTableRequest{Have: versionToWire(m.Have)}}
	case Table:
		w.Body = &wire.CoordinatorMessage_Table{Table: tableToWire(m)}
	case Ask:
		w.Body = &wire.CoordinatorMessage_Ask{Ask: &wire.CoordinatorAsk{Kind: m.Type, Have: versionToWire(m.Have)}}
	case NoHome:
		w.Body = &wire.CoordinatorMessage_NoHome{NoHome: &wire.CoordinatorNoHome{Term: termToWire(m.Term), Kind: m.Type, Reason: m.Reason}}
	case MoveBegin:
		b := moveToWire(m.Term, m.ShardID, m.Epoch)
		if b.From = uint64(m.From); !m.To.IsZero() {
			b.To = addressToWire(m.To)
		}
		w.Body = &wire.CoordinatorMessage_MoveBegin{MoveBegin: b}
	case MoveStatus:
		b := moveToWire(m.Term, m.ShardID, m.Epoch)
		b.State = uint32(m.State)
		w.Body = &wire.CoordinatorMessage_MoveStatus{MoveStatus: b}
	case MoveDone:
		w.Body = &wire.CoordinatorMessage_MoveDone{MoveDone: moveToWire(m.Term, m.ShardID, m.Epoch)}
	case MoveAborted:
		b := moveToWire(m.Term, m.ShardID, m.Epoch)
		b.Reason = m.Reason
		w.Body = &wire.CoordinatorMessage_MoveAborted{MoveAborted: b}
	case MoveCancel:
		w.Body = &wire.CoordinatorMessage_MoveCancel{MoveCancel: moveToWire(m.Term, m.ShardID, m.Epoch)}
	case MoveCancelled:
		w.Body = &wire.CoordinatorMessage_MoveCancelled{MoveCancelled: moveToWire(m.Term, m.ShardID, m.Epoch)}
	case Explain:
		w.Body = &wire.CoordinatorMessage_Explain{Explain: &wire.CoordinatorExplain{Id: m.ID, Kind: m.Kind, Shard: m.Shard}}
	case Explained:
		w.Body = &wire.CoordinatorMessage_Explained{Explained: &wire.CoordinatorPinsSet{Term: termToWire(m.Term), Id: m.ID, Reason: m.Text, Since: nanosOf(m.Since)}}
	case Inspect:
		w.Body = &wire.CoordinatorMessage_Inspect{Inspect: &wire.CoordinatorExplain{Id: m.ID, Kind: m.Type}}
	case Inspected:
		w.Body = &wire.CoordinatorMessage_Inspected{Inspected: inspectedToWire(m)}
	case SetPins:
		w.Body = &wire.CoordinatorMessage_SetPins{SetPins: &wire.CoordinatorSetPins{Id: m.ID, Pins: pinsToWire(Pins{Type: m.Type, Pins: m.Pins}), Count: m.Count, Once: m.Once}}
	case PinsSet:
		w.Body = &wire.CoordinatorMessage_PinsSet{PinsSet: &wire.CoordinatorPinsSet{Term: termToWire(m.Term), Id: m.ID, Reason: m.Reason}}
	case KeepPins:
		w.Body = &wire.CoordinatorMessage_KeepPins{KeepPins: &wire.CoordinatorKeepPins{Term: termToWire(m.Term), Pins: pinsToWire(m.Pins)}}
	case PinsKept:
		w.Body = &wire.CoordinatorMessage_PinsKept{PinsKept: &wire.CoordinatorKeepPins{Term: termToWire(m.Term), Pins: pinsToWire(Pins{Type: m.Type, Seq: m.Seq})}}
	case PoolLoad:
		w.Body = &wire.CoordinatorMessage_PoolLoad{PoolLoad: &wire.CoordinatorPoolLoad{Kind: m.Type, Instances: m.Instances, Busy: m.Busy, Waiting: m.Waiting}}
	case MemberLoad:
		w.Body = &wire.CoordinatorMessage_Load{Load: loadToWire(m)}
	case Balance:
		w.Body = &wire.CoordinatorMessage_Balance{Balance: &wire.CoordinatorBalance{Id: m.ID, Want: uint32(m.Want), By: m.By}}
	case Balanced:
		w.Body = &wire.CoordinatorMessage_Balanced{Balanced: &wire.CoordinatorBalanced{Term: termToWire(m.Term), Id: m.ID, Refusal: m.Refusal, Text: m.Text}}
	case Paused:
		w.Body = &wire.CoordinatorMessage_Paused{Paused: &wire.CoordinatorPaused{Term: termToWire(m.Term), Pause: pauseToWire(m.Pause)}}
	case PauseKept:
		w.Body = &wire.CoordinatorMessage_PauseKept{PauseKept: &wire.CoordinatorPaused{Term: termToWire(m.Term), Pause: pauseToWire(Pause{Seq: m.Seq})}}
	default:
		return nil, fmt.Errorf("encode coordinator message: unknown type %T", m)
	}
	b, err := proto.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode coordinator message: %s: %w", nameOf(m), err)
	}
	return b, nil
}

// Decode decodes the result of Encode. For other bytes, or a message with impossible values, it
// returns an error and never panics. The form of a decoded message needs no further check.
func Decode(b []byte) (Message, error) {
	var w wire.CoordinatorMessage
	if err := proto.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("decode coordinator message: %w", err)
	}
	if w.GetFormat() != format {
		return nil, fmt.Errorf("decode coordinator message: format %d (this version reads %d)", w.GetFormat(), format)
	}
	m, err := fromWire(&w)
	if err != nil {
		return nil, bounded.Error(fmt.Errorf("decode coordinator message: %w", err))
	}
	return m, nil
}

type reader struct{ err error }

func fromWire(w *wire.CoordinatorMessage) (Message, error) {
	var r reader
	var m Message
	switch b := w.GetBody().(type) {
	case *wire.CoordinatorMessage_Register:
		m = r.register(b.Register)
	case *wire.CoordinatorMessage_Registered:
		m = Registered{r.term(b.Registered.GetTerm()), b.Registered.GetSeq()}
	case *wire.CoordinatorMessage_TableStatus:
		m = TableStatus{r.version(b.TableStatus.GetVersion())}
	case *wire.CoordinatorMessage_TableRequest:
		m = TableRequest{r.anyVersion(b.TableRequest.GetHave())}
	case *wire.CoordinatorMessage_Table:
		m = r.table(b.Table)
	case *wire.CoordinatorMessage_Ask:
		m = Ask{r.kind(b.Ask.GetKind()), r.anyVersion(b.Ask.GetHave())}
	case *wire.CoordinatorMessage_NoHome:
		m = NoHome{r.term(b.NoHome.GetTerm()), r.kind(b.NoHome.GetKind()), b.NoHome.GetReason()}
	case *wire.CoordinatorMessage_MoveBegin:
		t, s, e := r.move(b.MoveBegin)
		begin := MoveBegin{Term: t, ShardID: s, From: placement.Epoch(b.MoveBegin.GetFrom()), Epoch: e}
		if to := b.MoveBegin.GetTo(); to != nil {
			begin.To = r.address(to)
		}
		m = begin
	case *wire.CoordinatorMessage_MoveStatus:
		t, s, e := r.move(b.MoveStatus)
		m = MoveStatus{t, s, e, r.state(b.MoveStatus.GetState())}
	case *wire.CoordinatorMessage_MoveDone:
		t, s, e := r.move(b.MoveDone)
		m = MoveDone{t, s, e}
	case *wire.CoordinatorMessage_MoveAborted:
		t, s, e := r.move(b.MoveAborted)
		m = MoveAborted{t, s, e, b.MoveAborted.GetReason()}
	case *wire.CoordinatorMessage_MoveCancel:
		t, s, e := r.move(b.MoveCancel)
		m = MoveCancel{t, s, e}
	case *wire.CoordinatorMessage_MoveCancelled:
		t, s, e := r.move(b.MoveCancelled)
		m = MoveCancelled{t, s, e}
	case *wire.CoordinatorMessage_Explain:
		m = Explain{b.Explain.GetId(), r.shard(r.kind(b.Explain.GetKind()), uint64(b.Explain.GetShard()))}
	case *wire.CoordinatorMessage_Explained:
		m = Explained{r.term(b.Explained.GetTerm()), b.Explained.GetId(), b.Explained.GetReason(), timeOf(b.Explained.GetSince())}
	case *wire.CoordinatorMessage_Inspect:
		m = Inspect{b.Inspect.GetId(), b.Inspect.GetKind()}
	case *wire.CoordinatorMessage_Inspected:
		m = r.inspected(b.Inspected)
	case *wire.CoordinatorMessage_SetPins:
		p := r.pins(b.SetPins.GetPins())
		m = SetPins{b.SetPins.GetId(), p.Type, p.Pins, b.SetPins.Count, b.SetPins.GetOnce()}
	case *wire.CoordinatorMessage_PinsSet:
		m = PinsSet{r.term(b.PinsSet.GetTerm()), b.PinsSet.GetId(), b.PinsSet.GetReason()}
	case *wire.CoordinatorMessage_KeepPins:
		m = KeepPins{r.term(b.KeepPins.GetTerm()), r.pins(b.KeepPins.GetPins())}
	case *wire.CoordinatorMessage_PinsKept:
		p := r.pins(b.PinsKept.GetPins())
		m = PinsKept{r.term(b.PinsKept.GetTerm()), p.Type, p.Seq}
	case *wire.CoordinatorMessage_PoolLoad:
		l := PoolLoad{r.kind(b.PoolLoad.GetKind()), b.PoolLoad.GetInstances(), b.PoolLoad.GetBusy(), b.PoolLoad.GetWaiting()}
		if l.Instances > placement.MaxShards || l.Busy > 1000*l.Instances {
			r.fail("the load of a pool: %d instances are busy for %d thousandths", l.Instances, l.Busy)
		}
		m = l
	case *wire.CoordinatorMessage_Load:
		m = r.load(b.Load)
	case *wire.CoordinatorMessage_Balance:
		m = r.balance(b.Balance)
	case *wire.CoordinatorMessage_Balanced:
		m = Balanced{r.term(b.Balanced.GetTerm()), b.Balanced.GetId(), b.Balanced.GetRefusal(), b.Balanced.GetText()}
	case *wire.CoordinatorMessage_Paused:
		m = Paused{r.term(b.Paused.GetTerm()), r.pause(b.Paused.GetPause())}
	case *wire.CoordinatorMessage_PauseKept:
		m = PauseKept{r.term(b.PauseKept.GetTerm()), r.pause(b.PauseKept.GetPause()).Seq}
	default:
		return nil, errors.New("the message has no body that this version knows (did a newer release send it?)")
	}
	return m, r.err
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) address(a *wire.PlacementAddress) transport.Address {
	if err := transport.CheckName("node", a.GetName()); err != nil {
		r.fail("%w", err)
	}
	return transport.Address{Name: a.GetName(), Incarnation: a.GetIncarnation()}
}

func (r *reader) term(t *wire.PlacementTerm) placement.Term {
	if t.GetNumber() == 0 {
		r.fail("no term")
	}
	return placement.Term{Number: t.GetNumber(), Incarnation: t.GetIncarnation()}
}

func (r *reader) version(v *wire.PlacementVersion) placement.Version {
	return placement.Version{Term: r.term(v.GetTerm()), Seq: v.GetSeq()}
}

func (r *reader) anyVersion(v *wire.PlacementVersion) placement.Version {
	if v.GetTerm().GetNumber() == 0 && v.GetTerm().GetIncarnation() == 0 && v.GetSeq() == 0 {
		return placement.Version{}
	}
	return r.version(v)
}

func (r *reader) kind(name string) string {
	if name == "" || len(name) > maxTypeBytes {
		r.fail("type name of %d bytes: want 1 to %d", len(name), maxTypeBytes)
	}
	return name
}

func (r *reader) state(s uint32) HeldState {
	if s < uint32(Active) || s > uint32(Prepared) {
		r.fail("unknown state %d", s)
		return 0
	}
	return HeldState(s)
}

func (r *reader) shard(kind string, shard uint64) placement.ShardID {
	if shard == 0 || shard >= 2*placement.MaxShards {
		r.fail("shard number %d: want 1 to %d", shard, 2*placement.MaxShards-1)
		return placement.ShardID{}
	}
	return placement.ShardID{Kind: kind, Shard: uint32(shard)}
}

func (r *reader) move(m *wire.CoordinatorMove) (placement.Term, placement.ShardID, placement.Epoch) {
	if m.GetEpoch() == 0 {
		r.fail("a move without an epoch")
	}
	return r.term(m.GetTerm()), r.shard(r.kind(m.GetKind()), uint64(m.GetShard())), placement.Epoch(m.GetEpoch())
}

func termToWire(t placement.Term) *wire.PlacementTerm {
	return &wire.PlacementTerm{Number: t.Number, Incarnation: t.Incarnation}
}

func versionToWire(v placement.Version) *wire.PlacementVersion {
	return &wire.PlacementVersion{Term: termToWire(v.Term), Seq: v.Seq}
}

func addressToWire(a transport.Address) *wire.PlacementAddress {
	return &wire.PlacementAddress{Name: a.Name, Incarnation: a.Incarnation}
}

func moveToWire(t placement.Term, s placement.ShardID, e placement.Epoch) *wire.CoordinatorMove {
	return &wire.CoordinatorMove{Term: termToWire(t), Kind: s.Kind, Shard: s.Shard, Epoch: uint64(e)}
}

func nanosOf(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}

func timeOf(nanos uint64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(nanos))
}

func (r *reader) pins(w *wire.CoordinatorPins) Pins {
	p := Pins{Type: r.kind(w.GetKind()), Seq: placement.Epoch(w.GetSeq()), Count: w.GetCount()}
	if len(w.GetShards()) != len(w.GetHomes()) {
		r.fail("pins of %q: columns of different lengths", w.GetKind())
		return p
	}
	for _, name := range w.GetNodes() {
		if err := transport.CheckName("node", name); err != nil {
			r.fail("%w", err)
		}
	}
	last := uint32(0)
	for i, shard := range w.GetShards() {
		id := r.shard(p.Type, uint64(int64(last)+int64(shard)))
		home := w.GetHomes()[i]
		if int(home) > len(w.GetNodes()) {
			r.fail("pin of %v: node %d of %d", id, home, len(w.GetNodes()))
		}
		if r.err != nil {
			return p
		}
		pin := Pin{Shard: id.Shard}
		if home > 0 {
			pin.Node = w.GetNodes()[home-1]
		}
		p.Pins, last = append(p.Pins, pin), id.Shard
	}
	return p
}

// pool decodes the settings of a pool. It checks the bounds on which the coordinator's computations
// rely.
func (r *reader) pool(w *wire.CoordinatorPool) Pool {
	if w == nil {
		return Pool{}
	}
	p := Pool{Min: w.GetMin(), Max: w.GetMax(), PerNode: w.GetPerNode(), Survive: w.GetSurvive()}
	if p.Min == 0 || p.Max < p.Min || p.Max > placement.MaxShards || p.PerNode > placement.MaxShards {
		r.fail("a pool of %d to %d instances, %d at a node", p.Min, p.Max, p.PerNode)
	}
	return p
}

func poolToWire(p Pool) *wire.CoordinatorPool {
	if p == (Pool{}) {
		return nil
	}
	return &wire.CoordinatorPool{Min: p.Min, Max: p.Max, PerNode: p.PerNode, Survive: p.Survive}
}

func (r *reader) pause(w *wire.CoordinatorPause) Pause {
	p := Pause{placement.Epoch(w.GetSeq()), w.GetOn(), r.operator(w.GetBy()), timeOf(w.GetAt())}
	if p.Seq == 0 && p != (Pause{}) {
		r.fail("a pause without its number")
	}
	return p
}

func (r *reader) balance(w *wire.CoordinatorBalance) Balance {
	b := Balance{w.GetId(), Wanted(min(w.GetWant(), 255)), r.operator(w.GetBy())}
	if !b.Want.Known() {
		r.fail("unknown request %d about rebalancing", w.GetWant())
	}
	return b
}

func (r *reader) operator(name string) string {
	if name == "" {
		return ""
	}
	if err := transport.CheckName("operator", name); err != nil {
		r.fail("%w", err)
	}
	return name
}

func (r *reader) inspected(w *wire.CoordinatorInspected) Inspected {
	m := Inspected{ID: w.GetId()}
	for _, g := range w.GetKinds() {
		n := len(g.GetShards())
		if len(g.GetStates()) != n || len(g.GetEntities()) != n || len(g.GetActive()) != n || len(g.GetWaiting()) != n {
			r.fail("held shards of %q: columns of different lengths", g.GetKind())
			return m
		}
		kind := r.kind(g.GetKind())
		for i, shard := range g.GetShards() {
			m.Shards = append(m.Shards, InspectedShard{
				r.shard(kind, uint64(shard)), r.state(g.GetStates()[i]), g.GetEntities()[i], g.GetActive()[i], g.GetWaiting()[i],
			})
		}
	}
	return m
}

func (r *reader) register(w *wire.CoordinatorRegister) Register {
	m := Register{Term: r.term(w.GetTerm()), Node: r.address(w.GetNode()), Seq: w.GetSeq(), Capacity: w.GetCapacity(), Zone: w.GetZone()}
	if m.Capacity > MaxCapacity {
		r.fail("a capacity of %d thousandths of a processor: want at most %d", m.Capacity, MaxCapacity)
	}
	if m.Zone != "" {
		if err := transport.CheckName("zone", m.Zone); err != nil {
			r.fail("%w", err)
		}
	}
	for _, k := range w.GetKinds() {
		m.Types = append(m.Types, TypeInfo{
			Name: r.kind(k.GetName()), Package: k.GetPackage(), Shards: k.GetShards(), HashName: k.GetHashName(), Hosts: k.GetHosts(),
			Tuning: Tuning{Allocation: k.GetAllocation(), MaxMoves: k.GetMaxMoves(), MinHosts: k.GetMinHosts(), Pool: r.pool(k.GetPool())},
		})
	}
	for _, p := range w.GetPins() {
		m.Pins = append(m.Pins, r.pins(p))
	}
	m.Pause = r.pause(w.GetPause())
	for _, g := range w.GetShards() {
		state := r.state(g.GetState())
		moves := g.GetMoves()
		if len(g.GetEpochs()) != len(g.GetShards()) || state != Active && len(moves) != len(g.GetShards()) {
			r.fail("registered shards of %q: columns of different lengths", g.GetKind())
		}
		last := HeldShard{ShardID: placement.ShardID{Kind: r.kind(g.GetKind())}, State: state}
		if g.GetPeer() != nil {
			last.Peer = r.address(g.GetPeer())
		}
		for i, shard := range g.GetShards() {
			if r.err != nil {
				return m
			}
			last.ShardID = r.shard(last.Kind, uint64(int64(last.Shard)+int64(shard)))
			last.Epoch += placement.Epoch(g.GetEpochs()[i])
			if state != Active {
				last.Move += placement.Epoch(moves[i])
			}
			m.Shards = append(m.Shards, last)
		}
	}
	return m
}

func (r *reader) table(w *wire.CoordinatorTable) Table {
	t := Table{Part: w.GetPart(), Parts: w.GetParts(), Diff: placement.Diff{
		From: r.anyVersion(w.GetFrom()), To: r.version(w.GetTo()), Full: w.GetFull(),
	}}
	if t.Parts == 0 || t.Parts > maxParts || t.Part >= t.Parts {
		r.fail("part %d of %d: want one of 1 to %d", t.Part, t.Parts, maxParts)
	}
	for _, a := range w.GetGone() {
		t.Gone = append(t.Gone, r.address(a))
	}
	homes := []transport.Address{{}}
	for _, a := range w.GetHomes() {
		homes = append(homes, r.address(a))
	}
	for _, k := range w.GetKinds() {
		if r.err != nil {
			return t
		}
		t.Entries = r.runs(t.Entries, k, homes)
	}
	return t
}

// runs appends the placements in w to entries. A few bytes of w can stand for very many shards, so
// runs checks their number before it allocates.
func (r *reader) runs(entries []placement.Entry, w *wire.CoordinatorRuns, homes []transport.Address) []placement.Entry {
	n := len(w.GetSkip())
	if len(w.GetLength()) != n || len(w.GetHome()) != n || len(w.GetEpoch()) != n {
		r.fail("table of %q: columns of different lengths", w.GetKind())
		return entries
	}
	kind := r.kind(w.GetKind())
	shard, epoch := uint64(0), placement.Epoch(0)
	for i := range n {
		shard += uint64(w.GetSkip()[i]) + 1
		end := shard + uint64(w.GetLength()[i])
		epoch += placement.Epoch(w.GetEpoch()[i])
		r.shard(kind, shard)
		r.shard(kind, end)
		if epoch == 0 {
			r.fail("table of %q: an entry without an epoch", kind)
		}
		if uint64(w.GetHome()[i]) >= uint64(len(homes)) {
			r.fail("table of %q: home %d of %d", kind, w.GetHome()[i], len(homes)-1)
		}
		if uint64(len(entries))+end-shard+1 > maxPartEntries {
			r.fail("more than %d entries in one part", maxPartEntries)
		}
		if r.err != nil {
			return entries
		}
		entries = slices.Grow(entries, int(end-shard)+1)
		for ; shard <= end; shard++ {
			entries = append(entries, placement.Entry{
				ShardID: placement.ShardID{Kind: kind, Shard: uint32(shard)}, Home: homes[w.GetHome()[i]], Epoch: epoch,
			})
		}
		shard = end
	}
	return entries
}

// registerToWire groups shards by type, state and peer. Most are active, and take three bytes.
func registerToWire(m Register) *wire.CoordinatorRegister {
	w := &wire.CoordinatorRegister{Term: termToWire(m.Term), Node: addressToWire(m.Node), Seq: m.Seq, Capacity: m.Capacity, Zone: m.Zone}
	for _, k := range m.Types {
		w.Kinds = append(w.Kinds, &wire.CoordinatorKind{
			Name: k.Name, Package: k.Package, Shards: k.Shards, HashName: k.HashName, Hosts: k.Hosts,
			Allocation: k.Allocation, MaxMoves: k.MaxMoves, MinHosts: k.MinHosts, Pool: poolToWire(k.Pool),
		})
	}
	for _, p := range m.Pins {
		w.Pins = append(w.Pins, pinsToWire(p))
	}
	if m.Pause.Seq != 0 {
		w.Pause = pauseToWire(m.Pause)
	}
	var group *wire.CoordinatorHeldShards
	var last HeldShard
	for i, o := range m.Shards {
		if i == 0 || o.Kind != last.Kind || o.State != last.State || o.Peer != last.Peer {
			group = &wire.CoordinatorHeldShards{Kind: o.Kind, State: uint32(o.State)}
			if !o.Peer.IsZero() {
				group.Peer = addressToWire(o.Peer)
			}
			w.Shards = append(w.Shards, group)
			last = HeldShard{}
		}
		group.Shards = append(group.Shards, int32(o.Shard)-int32(last.Shard))
		group.Epochs = append(group.Epochs, int64(o.Epoch-last.Epoch))
		if o.State != Active {
			group.Moves = append(group.Moves, int64(o.Move-last.Move))
		}
		last = o
	}
	return w
}

const maxParts = 1 << 10

// tableToWire encodes runs of shards with the same home and epoch.
func tableToWire(t Table) *wire.CoordinatorTable {
	w := &wire.CoordinatorTable{
		From: versionToWire(t.From), To: versionToWire(t.To), Full: t.Full, Part: t.Part, Parts: t.Parts,
	}
	for _, a := range t.Gone {
		w.Gone = append(w.Gone, addressToWire(a))
	}
	homes := map[transport.Address]uint32{{}: 0}
	var runs *wire.CoordinatorRuns
	var last placement.Entry
	for i, e := range t.Entries {
		home, ok := homes[e.Home]
		if !ok {
			home = uint32(len(homes))
			homes[e.Home] = home
			w.Homes = append(w.Homes, addressToWire(e.Home))
		}
		if i == 0 || e.Kind != last.Kind || e.Shard <= last.Shard {
			runs = &wire.CoordinatorRuns{Kind: e.Kind}
			w.Kinds = append(w.Kinds, runs)
			last = placement.Entry{}
		}
		if n := len(runs.Length); n > 0 && e.Shard == last.Shard+1 && e.Home == last.Home && e.Epoch == last.Epoch {
			runs.Length[n-1]++
		} else {
			runs.Skip = append(runs.Skip, e.Shard-last.Shard-1)
			runs.Length = append(runs.Length, 0)
			runs.Home = append(runs.Home, home)
			runs.Epoch = append(runs.Epoch, int64(e.Epoch-last.Epoch))
		}
		last = e
	}
	return w
}

// pinsToWire writes each node's name once, so a pin takes about three bytes.
func pinsToWire(p Pins) *wire.CoordinatorPins {
	w := &wire.CoordinatorPins{Kind: p.Type, Seq: uint64(p.Seq), Count: p.Count}
	places := map[string]uint32{"": 0}
	last := uint32(0)
	for _, pin := range p.Pins {
		at, ok := places[pin.Node]
		if !ok {
			at = uint32(len(places))
			places[pin.Node] = at
			w.Nodes = append(w.Nodes, pin.Node)
		}
		w.Shards = append(w.Shards, int32(pin.Shard)-int32(last))
		w.Homes = append(w.Homes, at)
		last = pin.Shard
	}
	return w
}

func pauseToWire(p Pause) *wire.CoordinatorPause {
	return &wire.CoordinatorPause{Seq: uint64(p.Seq), On: p.On, By: p.By, At: nanosOf(p.At)}
}

func inspectedToWire(m Inspected) *wire.CoordinatorInspected {
	w := &wire.CoordinatorInspected{Id: m.ID}
	var group *wire.CoordinatorHeld
	for i, h := range m.Shards {
		if i == 0 || h.Kind != m.Shards[i-1].Kind {
			group = &wire.CoordinatorHeld{Kind: h.Kind}
			w.Kinds = append(w.Kinds, group)
		}
		group.Shards = append(group.Shards, h.Shard)
		group.States = append(group.States, uint32(h.State))
		group.Entities = append(group.Entities, h.Entities)
		group.Active = append(group.Active, h.Active)
		group.Waiting = append(group.Waiting, h.Waiting)
	}
	return w
}

// loadToWire groups shards by type. Ordered shards take two or three bytes each.
func loadToWire(m MemberLoad) *wire.CoordinatorLoad {
	w := &wire.CoordinatorLoad{Other: m.Other, Memory: m.Memory}
	var group *wire.CoordinatorShardLoads
	last := placement.ShardID{}
	for _, s := range m.Shards {
		if group == nil || s.Kind != last.Kind || s.Shard <= last.Shard {
			group, last = &wire.CoordinatorShardLoads{Kind: s.Kind}, placement.ShardID{}
			w.Kinds = append(w.Kinds, group)
		}
		group.Shards = append(group.Shards, s.Shard-last.Shard)
		group.Loads = append(group.Loads, byte(s.Level))
		last = s.ShardID
	}
	return w
}

func (r *reader) load(w *wire.CoordinatorLoad) MemberLoad {
	m := MemberLoad{Other: w.GetOther(), Memory: w.GetMemory()}
	if m.Other > MaxCapacity {
		r.fail("a load of %d thousandths of a processor: want at most %d", m.Other, MaxCapacity)
	}
	for _, g := range w.GetKinds() {
		if len(g.GetLoads()) != len(g.GetShards()) || len(m.Shards)+len(g.GetShards()) > MaxReportedShards {
			r.fail("loads of %q: columns of different lengths, or more than %d shards", g.GetKind(), MaxReportedShards)
			return m
		}
		kind, last := r.kind(g.GetKind()), uint64(0)
		for i, skip := range g.GetShards() {
			last += uint64(skip)
			m.Shards = append(m.Shards, ShardLoad{r.shard(kind, last), LoadLevel(g.GetLoads()[i])})
			if r.err != nil || skip == 0 {
				r.fail("loads of %q: a shard twice", kind)
				return m
			}
		}
	}
	return m
}
