package coordinator

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
	"google.golang.org/protobuf/proto"
)

// samples has every message once, with every field set.
func samples() []Message {
	term := placement.Term{Number: 3, Incarnation: 7}
	version := placement.Version{Term: term, Seq: 9}
	id := placement.ShardID{Kind: "Cart", Shard: 300}
	e := placement.MakeEpoch(3, 4)
	a, b := node("a"), transport.Address{Name: "b", Incarnation: 1 << 63}
	return []Message{
		Register{
			Term: term, Node: a, Seq: 2,
			Types: []TypeInfo{
				{"Cart", "p/q", 256, "xxh64", true, Tuning{"least-shards(2)", 7, 3, Pool{}}},
				{"Resizer", "p/q", 64, "pool", true, Tuning{Pool: Pool{2, 40, 1, "1:0 5:1"}}},
				{"Stock", "p/q", 1, "p/q.Hash", false, Tuning{}},
			},
			Pins: []Pins{{"Cart", e, []Pin{{256, "a"}, {300, "b"}}, 0}},
			Shards: []HeldShard{
				{ShardID: id, State: Active, Epoch: e},
				{ShardID: placement.ShardID{Kind: "Cart", Shard: 257}, State: Active, Epoch: e - 1},
				{ShardID: placement.ShardID{Kind: "Cart", Shard: 258}, State: Draining, Epoch: e, Move: e + 1, Peer: b},
				{ShardID: placement.ShardID{Kind: "Cart", Shard: 259}, State: Draining, Epoch: e, Move: e + 2, Peer: b},
				{ShardID: placement.ShardID{Kind: "Cart", Shard: 260}, State: Prepared, Move: e + 2, Peer: b},
				{ShardID: placement.ShardID{Kind: "Stock", Shard: 1}, State: Prepared, Move: e + 2, Peer: b},
			},
		},
		Registered{term, 2},
		TableStatus{version},
		TableRequest{version},
		TableRequest{},
		Table{Part: 1, Parts: 2, Diff: placement.Diff{From: version, To: placement.Version{Term: term, Seq: 10}, Gone: []transport.Address{b}, Entries: []placement.Entry{
			{ShardID: placement.ShardID{Kind: "Cart", Shard: 256}, Home: a, Epoch: e},
			{ShardID: placement.ShardID{Kind: "Cart", Shard: 257}, Home: a, Epoch: e},
			{ShardID: placement.ShardID{Kind: "Cart", Shard: 258}, Home: b, Epoch: e},
			{ShardID: placement.ShardID{Kind: "Cart", Shard: 511}, Epoch: placement.MakeEpoch(1, 1)},
			{ShardID: placement.ShardID{Kind: "Stock", Shard: 1}, Home: a, Epoch: e},
		}}},
		Table{Parts: 1, Diff: placement.Diff{Full: true, To: version}},
		Ask{"Cart", version},
		NoHome{term, "Cart", "why"},
		MoveBegin{term, id, b, e, e + 1},
		MoveStatus{term, id, e, Sent},
		MoveDone{term, id, e},
		MoveAborted{term, id, e, "why"},
		MoveCancel{term, id, e},
		MoveCancelled{term, id, e},
		Explain{18, id},
		Explained{term, 18, "it is so", time.Unix(5, 6)},
		Inspect{19, "Cart"},
		Inspect{20, ""},
		Inspected{19, []InspectedShard{{id, Active, 7, 5, 1}, {placement.ShardID{Kind: "Stock", Shard: 1}, Prepared, 0, 0, 0}}},
		SetPins{17, "Cart", []Pin{{300, "b"}, {301, ""}}, nil, false},
		SetPins{17, "Cart", []Pin{{300, "b"}}, nil, true},
		PoolLoad{"Resizer", 3, 1500, 7},
		MemberLoad{},
		MemberLoad{12, 900, []ShardLoad{{placement.ShardID{Kind: "Cart", Shard: 256}, 0}, {placement.ShardID{Kind: "Cart", Shard: 258}, 255}, {placement.ShardID{Kind: "Stock", Shard: 1}, 7}}},
		Register{Term: term, Node: b, Seq: 2, Capacity: 2500, Zone: "b"},
		SetPins{18, "Resizer", nil, new(uint32(0)), false},
		MoveBegin{term, id, transport.Address{}, e, e + 1},
		PinsSet{term, 17, "why not"},
		KeepPins{term, Pins{"Cart", e, []Pin{{300, "b"}, {256, "a"}}, 0}},
		KeepPins{term, Pins{"Resizer", e, nil, 8}},
		PinsKept{term, "Cart", e},
		Balance{21, WantNow, "ann"},
		Balance{22, WantPause, ""},
		Balanced{term, 21, "view not converged", ""},
		Balanced{term, 22, "", "3 shards begin to move"},
		Paused{term, Pause{e, true, "ann", time.Unix(3, 4)}},
		PauseKept{term, e},
		Register{Term: term, Node: b, Seq: 2, Pause: Pause{e, true, "ann", time.Unix(3, 4)}},
	}
}

func TestCodec(t *testing.T) {
	for _, want := range samples() {
		b, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%T: got %+v, %v\nwant %+v", want, got, err, want)
		}
	}
}

// TestEncodeRefuses: a message whose text is not valid in the wire format is refused, not changed.
func TestEncodeRefuses(t *testing.T) {
	for _, m := range []Message{nil, NoHome{termOf(1), "Cart", "\xff"}} {
		if b, err := Encode(m); err == nil || b != nil {
			t.Errorf("%#v: got %d bytes, %v; want an error", m, len(b), err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	term := &wire.PlacementTerm{Number: 1, Incarnation: 1}
	version := &wire.PlacementVersion{Term: term, Seq: 1}
	table := func(change func(*wire.CoordinatorTable)) *wire.CoordinatorMessage {
		w := &wire.CoordinatorTable{
			To: version, Parts: 1, Homes: []*wire.PlacementAddress{{Name: "a", Incarnation: 1}},
			Kinds: []*wire.CoordinatorRuns{{Kind: "Cart", Skip: []uint32{3}, Length: []uint32{3}, Home: []uint32{1}, Epoch: []int64{1}}},
		}
		change(w)
		return &wire.CoordinatorMessage{Format: 1, Body: &wire.CoordinatorMessage_Table{Table: w}}
	}
	if _, err := decodeWire(table(func(*wire.CoordinatorTable) {})); err != nil {
		t.Fatalf("the sound table is refused: %v", err)
	}
	for name, w := range map[string]*wire.CoordinatorMessage{
		"no format":          {Body: &wire.CoordinatorMessage_TableStatus{TableStatus: &wire.CoordinatorTableStatus{Version: version}}},
		"later format":       {Format: 2, Body: &wire.CoordinatorMessage_TableStatus{TableStatus: &wire.CoordinatorTableStatus{Version: version}}},
		"no body":            {Format: 1},
		"no version":         {Format: 1, Body: &wire.CoordinatorMessage_TableStatus{TableStatus: &wire.CoordinatorTableStatus{}}},
		"no term":            {Format: 1, Body: &wire.CoordinatorMessage_TableRequest{TableRequest: &wire.CoordinatorTableRequest{Have: &wire.PlacementVersion{Seq: 5}}}},
		"half a term":        {Format: 1, Body: &wire.CoordinatorMessage_TableRequest{TableRequest: &wire.CoordinatorTableRequest{Have: &wire.PlacementVersion{Term: &wire.PlacementTerm{Incarnation: 1}}}}},
		"empty body":         {Format: 1, Body: &wire.CoordinatorMessage_MoveBegin{}},
		"no epoch":           {Format: 1, Body: &wire.CoordinatorMessage_MoveDone{MoveDone: &wire.CoordinatorMove{Term: term, Kind: "Cart", Shard: 4}}},
		"no type":            {Format: 1, Body: &wire.CoordinatorMessage_Ask{Ask: &wire.CoordinatorAsk{}}},
		"bad name":           {Format: 1, Body: &wire.CoordinatorMessage_Register{Register: &wire.CoordinatorRegister{Term: term, Node: &wire.PlacementAddress{Name: "a.b"}}}},
		"no parts":           table(func(w *wire.CoordinatorTable) { w.Parts = 0 }),
		"part beyond":        table(func(w *wire.CoordinatorTable) { w.Part = 1 }),
		"columns":            table(func(w *wire.CoordinatorTable) { w.Kinds[0].Home = nil }),
		"home beyond":        table(func(w *wire.CoordinatorTable) { w.Kinds[0].Home[0] = 2 }),
		"epoch 0":            table(func(w *wire.CoordinatorTable) { w.Kinds[0].Epoch[0] = 0 }),
		"endless run":        table(func(w *wire.CoordinatorTable) { w.Kinds[0].Length[0] = 1<<32 - 1 }),
		"numbers beyond":     table(func(w *wire.CoordinatorTable) { w.Kinds[0].Skip[0] = 1<<32 - 1 }),
		"no name":            {Format: 1, Body: &wire.CoordinatorMessage_Balance{Balance: &wire.CoordinatorBalance{Id: 1, Want: 1, By: "a.b"}}},
		"no such request":    {Format: 1, Body: &wire.CoordinatorMessage_Balance{Balance: &wire.CoordinatorBalance{Id: 1, Want: 4, By: "a"}}},
		"a pause of no name": {Format: 1, Body: &wire.CoordinatorMessage_Paused{Paused: &wire.CoordinatorPaused{Term: term, Pause: &wire.CoordinatorPause{Seq: 1, By: "a>"}}}},
		"a capacity beyond": {Format: 1, Body: &wire.CoordinatorMessage_Register{Register: &wire.CoordinatorRegister{
			Term: term, Node: &wire.PlacementAddress{Name: "a"}, Seq: 1, Capacity: MaxCapacity + 1,
		}}},
		"no zone's name": {Format: 1, Body: &wire.CoordinatorMessage_Register{Register: &wire.CoordinatorRegister{
			Term: term, Node: &wire.PlacementAddress{Name: "a"}, Seq: 1, Zone: "a b",
		}}},
		"a load beyond":    {Format: 1, Body: &wire.CoordinatorMessage_Load{Load: &wire.CoordinatorLoad{Other: MaxCapacity + 1}}},
		"columns of loads": {Format: 1, Body: &wire.CoordinatorMessage_Load{Load: &wire.CoordinatorLoad{Kinds: []*wire.CoordinatorShardLoads{{Kind: "Cart", Shards: []uint32{256}}}}}},
		"a load twice": {Format: 1, Body: &wire.CoordinatorMessage_Load{Load: &wire.CoordinatorLoad{Kinds: []*wire.CoordinatorShardLoads{
			{Kind: "Cart", Shards: []uint32{256, 0}, Loads: []byte{1, 1}},
		}}}},
		"too many loads": {Format: 1, Body: &wire.CoordinatorMessage_Load{Load: &wire.CoordinatorLoad{Kinds: []*wire.CoordinatorShardLoads{
			{Kind: "Cart", Shards: slices.Repeat([]uint32{1}, MaxReportedShards+1), Loads: make([]byte, MaxReportedShards+1)},
		}}}},
		"columns of pins": {Format: 1, Body: &wire.CoordinatorMessage_SetPins{SetPins: &wire.CoordinatorSetPins{
			Id: 1, Pins: &wire.CoordinatorPins{Kind: "Cart", Seq: 1, Nodes: []string{"a"}, Shards: []int32{3}, Homes: []uint32{1, 1}},
		}}},
		"too many entries": table(func(w *wire.CoordinatorTable) {
			w.Kinds[0].Skip[0], w.Kinds[0].Length[0] = 1<<16-1, 1<<16-1
		}),
	} {
		if m, err := decodeWire(w); err == nil {
			t.Errorf("%s: decoded %+v, want an error", name, m)
		}
	}
}

func decodeWire(w *wire.CoordinatorMessage) (Message, error) {
	b, err := proto.Marshal(w)
	if err != nil {
		return nil, err
	}
	return Decode(b)
}

// TestTableSize: the message with a table of 10,000 shards is small, even if neighbouring shards
// have different homes.
func TestTableSize(t *testing.T) {
	var d placement.Diff
	d.Full, d.To = true, placement.Version{Term: placement.Term{Number: 9, Incarnation: 1}, Seq: 1}
	for i := range uint32(10_000) {
		id := placement.ShardID{Kind: string(rune('A' + i/256)), Shard: 256 + i%256}
		d.Entries = append(d.Entries, placement.Entry{
			ShardID: id, Home: transport.Address{Name: "node-" + string(rune('a'+i%7)), Incarnation: uint64(i % 7)},
			Epoch: placement.MakeEpoch(1+i%5, 1+i%3),
		})
	}
	parts := Split(d)
	if len(parts) != 1 {
		t.Fatalf("%d parts, want 1", len(parts))
	}
	b, err := Encode(parts[0])
	if err != nil || len(b) > 128<<10 {
		t.Errorf("10,000 shards take %d bytes, %v; want at most 128 KiB", len(b), err)
	}
	t.Logf("10,000 shards of 7 homes in 5 terms: %d bytes", len(b))
}

// TestSplit sends a table of several parts through the codec to a follower, with the parts out of
// order.
func TestSplit(t *testing.T) {
	d := placement.Diff{Full: true, To: placement.Version{Term: placement.Term{Number: 1, Incarnation: 1}, Seq: 1}, Gone: []transport.Address{node("x")}}
	for _, kind := range []string{"A", "B"} {
		for i := range uint32(placement.MaxShards) {
			d.Entries = append(d.Entries, placement.Entry{
				ShardID: placement.ShardID{Kind: kind, Shard: placement.MaxShards + i},
				Home:    node([]string{"a", "b", "c"}[i%3]), Epoch: placement.MakeEpoch(1, i*40503%1000+1),
			})
		}
	}
	parts := Split(d)
	if len(parts) != 3 {
		t.Fatalf("%d parts, want 3", len(parts))
	}
	f := NewFollower(false)
	slices.Reverse(parts)
	for i, p := range parts {
		b, err := Encode(p)
		if err != nil || len(b) > 1<<20-1<<10 {
			t.Fatalf("part %d takes %d bytes, %v; want below 1 MiB", i, len(b), err)
		}
		m, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		out := f.Step(t0, node("a"), m)
		if (out.Table != nil) != (i == len(parts)-1) {
			t.Fatalf("after part %d: table %v", i, out.Table.Version())
		}
	}
	if got := f.Table().Full(); !slices.Equal(got.Entries, d.Entries) || !slices.Equal(got.Gone, d.Gone) {
		t.Errorf("got %d entries and %v gone, want %d and %v", len(got.Entries), got.Gone, len(d.Entries), d.Gone)
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		b, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Encode(m)
		if err != nil {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
		same, err := Decode(again)
		if err != nil || !reflect.DeepEqual(m, same) {
			t.Fatalf("decoded %+v, then %+v, %v", m, same, err)
		}
		// No message that decodes may break a coordinator or a follower.
		s := &script{t: nil, now: t0}
		s.c, _ = New(Config{Self: node("a"), Term: placement.Term{Number: 3, Incarnation: 7}})
		s.c.Step(t0, s.view([]string{"a:up:hosts", "b:up:hosts"}))
		s.c.Step(t0, Receive{node("b"), Register{Term: s.c.config.Term, Node: node("b"), Seq: 1, Types: []TypeInfo{{Name: "Cart", Package: "p/q", Shards: 256, HashName: "xxh64", Hosts: true}}}})
		for range 2 {
			s.c.Step(t0, Receive{node("a"), m})
			if err := s.c.Check(); err != nil {
				t.Fatal(err)
			}
			s.c.Step(t0, Receive{node("a"), Register{Term: s.c.config.Term, Node: node("a"), Seq: 1}})
			s.c.Step(t0, Receive{node("a"), Ask{Type: "Cart"}})
		}
		NewFollower(true).Step(t0, node("a"), m)
	})
}

// TestClaimIsSound: which combinations of fields of a node's claim to a shard are valid.
func TestClaimIsSound(t *testing.T) {
	a, b := node("a"), node("b")
	for _, tt := range []struct {
		state       HeldState
		epoch, move placement.Epoch
		peer        transport.Address
		want        bool
	}{
		{Active, 1, 0, transport.Address{}, true},
		{Active, 0, 0, transport.Address{}, false},
		{Active, 1, 2, b, false},
		{Draining, 1, 2, b, true},
		{Draining, 1, 2, transport.Address{}, false},
		{Draining, 1, 2, a, false},
		{Draining, 1, 0, b, false},
		{Draining, 0, 2, b, false},
		{Draining, 2, 2, b, false},
		{Sent, 1, 2, b, true},
		{Forwarding, 1, 2, b, true},
		{Forwarding, 0, 2, b, true},
		{Forwarding, 2, 2, b, false},
		{Prepared, 0, 2, b, true},
		{Prepared, 1, 2, b, false},
		{Prepared, 0, 0, b, false},
	} {
		o := HeldShard{State: tt.state, Epoch: tt.epoch, Move: tt.move, Peer: tt.peer}
		if got := o.sound(a); got != tt.want {
			t.Errorf("%+v of a: %v, want %v", o, got, tt.want)
		}
	}
}
