package table

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
)

// newAdmitter returns a bench whose machine has no write under way.
func newAdmitter(t *testing.T, self string) *bench {
	t.Helper()
	b := newBench(t, self)
	b.pass(time.Second)
	b.m.wasWritten(b.now) // so no proof is wanted
	if w := b.m.client.writing; w != nil {
		b.done(w)
	}
	require.Nil(t, b.m.client.writing)
	return b
}

// ask gives the machine the question of a joiner: for a row, or for its admission if it has one.
func (b *bench) ask(from string) {
	b.t.Helper()
	b.receive(from, message.Join{
		Target: 1, Version: b.m.Table().Version, Server: "s1/1", Compat: b.m.Config.Compat, Proved: b.m.Table().Row(addr(from)) != nil,
	})
}

// next returns the machine's next write, which begins within a second.
func (b *bench) next() *core.TableWrite {
	b.t.Helper()
	for range 10 {
		if b.m.client.writing != nil {
			return b.m.client.writing
		}
		b.pass(100 * time.Millisecond)
	}
	require.Fail(b.t, "no write")
	return nil
}

// fail answers the machine's write with an error.
func (b *bench) fail(w *core.TableWrite) {
	b.t.Helper()
	b.step(core.TableWritten{Number: w.Number, Reason: "who knows"})
}

// joiners returns the nodes of a write that are not a.
func joiners(w *core.TableWrite) (names []string) {
	for _, r := range w.Rows {
		if r.Name != "a" {
			names = append(names, r.Name)
		}
	}
	return names
}

// done answers the machine's write, and lets time pass for the next.
func (b *bench) done(w *core.TableWrite) {
	b.t.Helper()
	version := w.Version + uint64(len(w.Rows))
	b.step(core.TableWritten{Number: w.Number, Done: true, Version: version})
	b.now = b.now.Add(admitEvery)
}

// TestAdmitsACrowd: the first guide writes the rows of those that ask, then admits those that ask again
// in one write, which gives each its own age, and itself a proof.
func TestAdmitsACrowd(t *testing.T) {
	b := newAdmitter(t, "a")
	b.ask("x1")
	w := b.out.WriteTable
	require.Len(t, w.Rows, 1, "the first at once")
	require.Equal(t, gossip.Joining, w.Rows[0].Status)
	require.Equal(t, addr("a"), w.Rows[0].Founder)
	b.ask("x3")
	b.ask("x2")
	require.Nil(t, b.out.WriteTable)
	b.done(w)
	b.step(core.Tick{})
	w = b.out.WriteTable
	require.Len(t, w.Rows, 3, "with its own")
	require.NoError(t, (&rows.Table{Version: w.Version + 3, Rows: w.Rows}).Check())
	proof := b.m.lease.written
	b.done(w)
	require.True(t, b.m.lease.written.After(proof))
	b.now = b.now.Add(4 * time.Second)
	b.ask("x4")
	require.Len(t, b.out.WriteTable.Rows, 2, "a proof is due")
	b.done(b.out.WriteTable)

	b.ask("x1")
	b.ask("x2")
	require.Nil(t, b.out.WriteTable, "others may come")
	b.now = b.now.Add(admitQuiet)
	b.step(core.Tick{})
	w = b.out.WriteTable
	require.Len(t, w.Rows, 3)
	ages := make(map[uint32]bool)
	for _, r := range w.Rows {
		require.Equal(t, gossip.Up, r.Status)
		ages[r.UpNumber] = true
	}
	require.Len(t, ages, 3)
	require.NoError(t, (&rows.Table{Version: w.Version + 3, Rows: w.Rows}).Check())
	b.done(w)
	b.m.asked(addr("x3"), message.Join{Target: 1, Version: b.m.Table().Version, Compat: b.m.Config.Compat, Proved: true})
	b.now = b.now.Add(askLife + 1)
	b.step(core.Tick{})
	if w := b.out.WriteTable; w != nil {
		require.Empty(t, joiners(w), "it has not asked again")
	}
}

// TestAdmitEvery: a member waits between two writes for joiners, in which others ask.
func TestAdmitEvery(t *testing.T) {
	b := newAdmitter(t, "a")
	b.ask("x1")
	b.ask("x2")
	b.done(b.m.client.writing)
	b.now = b.now.Add(-1)
	b.step(core.Tick{})
	require.Nil(t, b.m.client.writing)
	b.now = b.now.Add(1)
	b.step(core.Tick{})
	require.NotNil(t, b.m.client.writing)
}

// TestAdmitPatience: while further joiners get rows, one is admitted after admitPatience.
func TestAdmitPatience(t *testing.T) {
	b := newAdmitter(t, "a")
	b.ask("x")
	b.done(b.next())
	b.pass(admitPatience / 2)
	if w := b.m.client.writing; w != nil {
		b.done(w)
	}
	proved := b.now
	for i := 0; ; i++ {
		b.ask("x")
		b.ask(fmt.Sprintf("y%03d", i))
		w := b.next()
		if x := w.Rows[0]; x.Name == "x" || len(w.Rows) > 1 && w.Rows[1].Name == "x" {
			break
		}
		b.done(w)
		b.now = b.now.Add(admitQuiet / 2)
	}
	require.WithinDuration(t, proved.Add(admitPatience), b.now, 2*admitQuiet)
}

// TestProvedNothing: a joiner that asks again for the row that it has, because it has not heard of it, is
// not admitted.
func TestProvedNothing(t *testing.T) {
	b := newAdmitter(t, "a")
	b.ask("x")
	join := message.Join{Target: 1, Version: b.m.Table().Version, Server: "s1/1", Compat: b.m.Config.Compat}
	b.done(b.next())
	for range 4 * int(time.Second/askEvery) {
		b.receive("x", join)
		b.pass(askEvery)
		if w := b.m.client.writing; w != nil {
			require.Empty(t, joiners(w))
			b.done(w)
		}
	}
	require.Equal(t, gossip.Joining, b.m.Table().Row(addr("x")).Status)
}

// TestBoundsOfAWrite: a write has a hundred rows at most and so many bytes, of which each member can be
// told in one message.
func TestBoundsOfAWrite(t *testing.T) {
	for name, c := range map[string]struct {
		limit, meta, want int
	}{
		"rows":              {0, 10, maxRows - 1},
		"bytes":             {0, 4 << 10, 14},
		"of a message":      {32 << 10, 4 << 10, 3},
		"one is too large":  {0, 100 << 10, 1},
		"a large message":   {64 << 20, 4 << 10, 14},
		"any number of one": {100, 10, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newAdmitter(t, "a")
			b.step(core.MessageLimit{Bytes: c.limit})
			meta := []gossip.KeyValue{{Key: "k", Value: strings.Repeat("x", c.meta)}}
			for i := range 150 {
				b.receive(fmt.Sprintf("x%03d", i), message.Join{Target: 1, Version: b.m.Table().Version, Meta: meta, Compat: b.m.Config.Compat})
			}
			b.done(b.next())
			b.step(core.Tick{})
			require.Len(t, joiners(b.next()), c.want)
		})
	}
}

// TestFailedAdmissions: after a failure each write has half of the rows, because one of them may be the
// reason. One that fails alone is left to its joiner, and the others are written, soon all at once.
func TestFailedAdmissions(t *testing.T) {
	b := newAdmitter(t, "a")
	ask := func() {
		for i := range 300 {
			if name := fmt.Sprintf("x%03d", i); b.m.Table().Row(addr(name)) == nil {
				b.ask(name)
			}
		}
	}
	ask()
	b.done(b.next()) // x000
	var sizes []int
	for range 14 {
		ask()
		w := b.next()
		names := joiners(w)
		sizes = append(sizes, len(names))
		if slices.Contains(names, "x001") {
			if r := b.m.client.reading; r != nil { // reads work
				b.step(core.TableRows{Number: r.Number, Table: b.m.Table()})
			}
			b.fail(w)
		} else {
			b.done(w)
		}
	}
	require.Equal(t, []int{99, 49, 24, 12, 6, 3, 1, 1, 2, 4, 8, 16, 32, 64}, sizes)
	w := b.next()
	require.Len(t, joiners(w), 99)
	b.done(w)
	require.Nil(t, b.m.Table().Row(addr("x001")))
	require.NotNil(t, b.m.Table().Row(addr("x002")))
	b.snapshot("b", rows.Row{Member: gossip.Member{Address: addr("x001"), Status: gossip.Joining}, Compat: b.m.Config.Compat, Founder: addr("a")})
	b.ask("x001")
	for b.m.Table().Row(addr("x001")).Status == gossip.Joining {
		b.done(b.next())
	}
}

// TestFailedAdmission: a joiner whose admission has failed alone has to become active by itself.
func TestFailedAdmission(t *testing.T) {
	b := newAdmitter(t, "a")
	b.ask("x")
	b.done(b.next())
	b.now = b.now.Add(admitQuiet)
	b.ask("x")
	require.Equal(t, []string{"x"}, joiners(b.m.client.writing))
	b.fail(b.m.client.writing)
	for range 10 {
		b.ask("x")
		if w := b.m.client.writing; w != nil {
			require.Empty(t, joiners(w))
			b.done(w)
		}
		b.pass(100 * time.Millisecond)
	}
}

// TestAdmitsNobodyWrong: nobody becomes active whose name another holds, or whose settings differ from those
// of a member that it has not seen.
func TestAdmitsNobodyWrong(t *testing.T) {
	differ := func(a, b gossip.Member) string {
		if len(a.Meta) > 0 && len(b.Meta) > 0 && a.Meta[0].Value != b.Meta[0].Value {
			return "they differ"
		}
		return ""
	}
	b := newAdmitter(t, "a")
	b.m.Config.Differ = differ
	join := func(name string, incarnation uint64, meta string) {
		from := addr(name)
		from.Incarnation = incarnation
		m := message.Join{
			Target: 1, Version: b.m.Table().Version, Compat: b.m.Config.Compat, Meta: []gossip.KeyValue{{Key: "k", Value: meta}},
			Proved: b.m.Table().Row(from) != nil,
		}
		b.step(core.Receive{From: from, Message: m, Server: "s1/1"})
		if w := b.out.WriteTable; w != nil {
			b.done(w)
		}
	}
	for range 2 { // for a row, and to become active
		join("d", 2, "1") // d is active
		join("x", 1, "1")
		join("x", 2, "1")
		join("y", 1, "2") // differs from x
		b.now = b.now.Add(admitQuiet)
		b.step(core.Tick{})
		if w := b.out.WriteTable; w != nil {
			b.done(w)
		}
	}
	require.Len(t, b.m.Table().Rows, 8)
	var active []string
	for _, r := range b.m.Table().Summary().Ages {
		active = append(active, r.String())
	}
	require.Len(t, active, 5)
	require.Contains(t, active[4], "x#0000000000000001 up")
	for range 2 {
		join("x", 0, "1")
		b.now = b.now.Add(admitQuiet)
		b.step(core.Tick{})
		require.Nil(t, b.m.client.writing, "one that is active holds its name")
	}
}

// TestLaterGuidesWait: a guide after the first writes for joiners only when nothing has changed for a
// while.
func TestLaterGuidesWait(t *testing.T) {
	b := newAdmitter(t, "b")
	b.ask("x1")
	require.Nil(t, b.m.client.writing)
	b.pass(200 * time.Millisecond)
	require.Nil(t, b.m.client.writing)
	b.pass(100 * time.Millisecond)
	require.NotNil(t, b.m.client.writing)

	b = newAdmitter(t, "b")
	for range 5 {
		b.ask("x1")
		b.change("c", func(*rows.Row) {})
		b.pass(200 * time.Millisecond)
		require.Nil(t, b.m.client.writing, "the table changes")
	}

	b = newAdmitter(t, "b")
	b.ask("x1")
	b.pass(200 * time.Millisecond)
	b.snapshot("a", rows.Row{Member: gossip.Member{Address: addr("x1"), Status: gossip.Up, UpNumber: uint32(b.m.Table().Version) + 1}, Compat: b.m.Config.Compat})
	b.pass(200 * time.Millisecond)
	b.ask("x2")
	b.pass(200 * time.Millisecond)
	require.Nil(t, b.m.client.writing, "the first that asked has been admitted since")
	b.pass(100 * time.Millisecond)
	require.NotNil(t, b.m.client.writing)

	b = newAdmitter(t, "d")
	b.ask("x1")
	b.pass(2 * time.Second)
	require.Nil(t, b.m.client.writing, "it is no guide")
}

// TestFirstAdmits: while nobody is active, the node that made the first row writes those of others.
func TestFirstAdmits(t *testing.T) {
	for _, first := range []string{"c", "b"} {
		b := newJoiner(t, 0)
		row := rows.Row{Member: gossip.Member{Address: addr("c"), Status: gossip.Joining}, Compat: b.m.Config.Compat, Founder: addr(first)}
		other := rows.Row{Member: gossip.Member{Address: addr("b"), Status: gossip.Joining}, Compat: b.m.Config.Compat, Founder: addr(first)}
		b.m.Config.MinMembers = 9
		b.m.client.writing = nil
		b.m.put(&rows.Table{Version: 3, Rows: []rows.Row{other, row}})
		b.step(core.Tick{})
		b.ask("x")
		require.Equal(t, first == "c", b.m.client.writing != nil)
		if first == "c" {
			b.done(b.m.client.writing)
			b.ask("x")
			b.now = b.now.Add(admitQuiet)
			b.step(core.Tick{})
			require.Nil(t, b.m.client.writing, "it becomes active first, by itself")
		}
	}
}

// newJoiner returns a bench of a node c that has read a table with the active members a, b, d and e,
// and others that join. The first three are the guides.
func newJoiner(t *testing.T, others int) *bench {
	t.Helper()
	m, err := New(core.Config{Self: addr("c"), Cluster: "test"})
	require.NoError(t, err)
	b := &bench{t: t, m: m, now: time.Unix(1_000_000, 0)}
	b.step(core.ConnState{Connected: true, Server: "s1/1", Alone: true})
	b.step(core.Start{})
	var list []rows.Row
	for _, name := range []string{"a", "b", "d", "e"} {
		list = append(list, rows.Row{Member: gossip.Member{Address: addr(name)}, Compat: m.Config.Compat, Server: "s1/1", Alive: b.now})
	}
	table := rows.Preformed(list)
	for i := range others {
		row := rows.Row{Member: gossip.Member{Address: addr(fmt.Sprint("x", i)), Status: gossip.Joining}, Compat: m.Config.Compat, Founder: addr("a")}
		table = table.With(table.Version+1, []rows.Row{row}, nil)
	}
	b.step(core.TableRows{Number: b.out.ReadTable.Number, Table: table})
	return b
}

// snapshot gives the machine the table with one row changed, as another broadcasts it.
func (b *bench) snapshot(from string, row rows.Row) {
	b.t.Helper()
	v := b.m.Table().Version
	b.receive(from, message.Snapshot{Base: v, Table: &rows.Table{Version: v + 1, Rows: []rows.Row{row}}})
}

// becomes gives the machine the table with another joiner as active.
func (b *bench) becomes(name string) {
	b.t.Helper()
	row := *b.m.Table().Row(addr(name))
	row.Status, row.UpNumber = gossip.Up, uint32(b.m.Table().Version)+1
	b.snapshot("a", row)
}

// answer gives the machine the answer of a member to a probe. It reports whether it was probed.
func (b *bench) answer(from string) bool {
	b.t.Helper()
	for seq, a := range b.m.probes.asked {
		if a.subject == addr(from) {
			b.receive(from, message.ProbeAck{Target: 1, Seq: seq, Version: b.m.Table().Version})
			return true
		}
	}
	return false
}

// joins returns the last step's questions to a node.
func (b *bench) joins(to string) (all []message.Join) {
	for _, m := range b.sent(to) {
		if join, ok := m.(message.Join); ok {
			all = append(all, join)
		}
	}
	return all
}

// TestAsksInACrowd: a joiner among many asks the guides for its row, and again once it has proved both ways
// to all that were active when it knew the row, and to the guides. If nothing happens it writes itself.
func TestAsksInACrowd(t *testing.T) {
	b := newJoiner(t, crowd)
	require.NotNil(t, b.m.client.writing, "few join")
	own := rows.Row{Member: gossip.Member{Address: addr("c"), Status: gossip.Joining}, Compat: b.m.Config.Compat, Founder: addr("a")}
	b.snapshot("a", own)
	require.Nil(t, b.m.Table().Row(addr("c")), "it waits for the answer to its own write")

	b = newJoiner(t, crowd+1)
	require.Nil(t, b.m.client.writing)
	require.Empty(t, b.joins("e"), "it is no guide")
	for _, g := range []string{"a", "b", "d"} {
		require.Equal(t, []message.Join{{
			Target: 1, Version: b.m.Table().Version, Server: "s1/1", Compat: b.m.Config.Compat,
		}}, b.joins(g))
	}
	b.snapshot("z", own)
	require.Nil(t, b.m.Table().Row(addr("c")), "z is not in the table that was read")
	require.NotNil(t, b.m.client.reading, "it may be in a later one")
	b.snapshot("a", own)
	require.NotNil(t, b.m.Table().Row(addr("c")))
	shown := b.m.View()
	b.becomes("x0")
	require.Same(t, shown, b.m.View(), "a crowd makes many versions")
	b.pass(proveInterval)
	for _, from := range []string{"a", "b", "d", "e"} {
		require.Empty(t, b.joins("a"))
		require.True(t, b.answer(from))
	}
	require.Equal(t, []message.Join{{
		Target: 1, Version: b.m.Table().Version, Server: "s1/1", Compat: b.m.Config.Compat, Proved: true,
	}}, b.joins("a"))
	require.False(t, b.answer("x0"), "it joined together with x0")
	require.Nil(t, b.m.client.writing)
	b.pass(askQuiet + b.m.spread(crowd+2) + askEvery)
	require.Equal(t, gossip.Up, b.m.client.writing.Rows[0].Status, "nobody has admitted it")
}

// TestProvesToGuides: a joiner of a crowd proves both ways to guides that joined together with it.
func TestProvesToGuides(t *testing.T) {
	b := newJoiner(t, crowd+1)
	own := rows.Row{Member: gossip.Member{Address: addr("c"), Status: gossip.Joining}, Compat: b.m.Config.Compat, Founder: addr("a")}
	b.snapshot("a", own)
	for _, name := range []string{"b", "d", "e"} {
		b.change(name, func(r *rows.Row) { r.Status = gossip.Removed })
	}
	for _, name := range []string{"x0", "x1", "x2"} {
		b.becomes(name)
	}
	b.pass(proveInterval)
	for _, from := range []string{"a", "x0", "x1"} {
		require.Empty(t, b.joins("a"))
		require.True(t, b.answer(from))
	}
	require.Len(t, b.joins("a"), 1)
	require.False(t, b.answer("x2"), "it is no guide")
}

// TestProvesToAllWithoutCrowd: without a crowd, a joiner proves both ways also to those that become active after
// it knew its row.
func TestProvesToAllWithoutCrowd(t *testing.T) {
	b := newJoiner(t, crowd-1)
	w := b.next()
	b.step(core.TableWritten{Number: w.Number, Done: true, Version: w.Version + 1})
	b.becomes("x0")
	b.pass(proveInterval)
	for _, from := range []string{"a", "b", "d", "e", "x0"} {
		require.Nil(t, b.m.client.writing)
		require.True(t, b.answer(from))
	}
	require.Equal(t, gossip.Up, b.m.client.writing.Rows[0].Status)
}

// TestAdmittedByAGuide: what died before a joiner knew of its admission may never have heard of it, also if
// that was written before.
func TestAdmittedByAGuide(t *testing.T) {
	b := newJoiner(t, crowd+1)
	own := rows.Row{Member: gossip.Member{Address: addr("c"), Status: gossip.Joining}, Compat: b.m.Config.Compat, Founder: addr("a")}
	b.snapshot("a", own)
	own.Status, own.UpNumber = gossip.Up, uint32(b.m.Table().Version)+1
	b.receive("a", message.Snapshot{Base: b.m.Table().Version, Table: &rows.Table{Version: b.m.Table().Version + 50, Rows: []rows.Row{own}}})
	require.Equal(t, core.Joined, b.m.Phase)
	require.Equal(t, b.m.Table().Version, b.m.joiner.entered)
}

// TestAskPatience: a joiner that nobody admits although the table changes writes itself after askPatience,
// and asks from time to time until then, in large clusters half as often.
func TestAskPatience(t *testing.T) {
	for _, every := range []time.Duration{askEvery, 2 * askEvery} {
		b := newJoiner(t, crowd+1)
		asked, began := len(b.joins("a")), b.now
		if every > askEvery {
			b.m.Config.SmallCluster = crowd
		}
		for i := 0; b.m.client.writing == nil && b.now.Sub(began) < time.Minute; i++ {
			b.becomes(fmt.Sprint("x", i%(crowd+1)))
			b.now = b.now.Add(100 * time.Millisecond)
			b.step(core.Tick{})
			asked += len(b.joins("a"))
		}
		require.WithinRange(t, b.now, began.Add(askPatience), began.Add(askPatience+every+b.m.spread(2*crowd)))
		require.InDelta(t, float64(b.now.Sub(began)/every), asked, 1)
	}
}

// TestSignsOfACrowd: hellos of many, and conflicts with many, are a crowd, too.
func TestSignsOfACrowd(t *testing.T) {
	b := newJoiner(t, 0)
	for i := range crowd + 1 {
		require.False(t, b.m.crowded())
		b.receive(fmt.Sprint("y", i), message.Hello{Attempt: 1, Interval: helloInterval})
	}
	require.True(t, b.m.crowded())

	b = newJoiner(t, 0)
	b.m.client.rivals = crowd / 2
	require.False(t, b.m.crowded())
	b.m.client.rivals++
	require.True(t, b.m.crowded())
	b.m.client.rivals = 0
	require.True(t, b.m.crowded(), "it stays one")
}

// TestCrowdSpreads: of many nodes that start where nobody is, each sends fewer hellos and makes the first
// row at another time.
func TestCrowdSpreads(t *testing.T) {
	const others = 100
	for n, wait := range map[int]time.Duration{0: 0, others: others * spreadPer} {
		m, err := New(core.Config{Self: addr("c"), Cluster: "test"})
		require.NoError(t, err)
		b := &bench{t: t, m: m, now: time.Unix(1_000_000, 0)}
		b.step(core.ConnState{Connected: true, Server: "s1/1", Alone: true})
		b.step(core.Start{})
		for i := range n {
			b.receive(fmt.Sprint("y", i), message.Hello{Attempt: 1, Interval: helloInterval})
		}
		require.LessOrEqual(t, b.m.luckOf(wait), wait)
		b.m.joiner.luck = 1
		b.step(core.TableRows{Number: b.m.client.reading.Number, Table: &rows.Table{}})
		b.receive("c", message.Hello{Attempt: 1})
		b.step(core.Tick{})
		began, hellos := b.now, b.m.joiner.hellos
		for b.m.client.writing == nil && b.m.joiner.hellos < 100 {
			b.now = b.now.Add(10 * time.Millisecond)
			b.step(core.Tick{})
		}
		passed := b.now.Sub(began)
		require.WithinDuration(t, began.Add(b.m.Config.FormWindow+wait), b.now, 20*time.Millisecond)
		require.InDelta(t, float64(passed/(helloInterval+wait)), b.m.joiner.hellos-hellos, 1)
	}
}

// TestSettingsOfLaterMembers: a joiner is refused if its settings differ from those of a member that became
// active after it got its row, also one to which it need not prove.
func TestSettingsOfLaterMembers(t *testing.T) {
	for _, compat := range []string{"1", "2"} {
		b := newJoiner(t, crowd+1)
		own := rows.Row{Member: gossip.Member{Address: addr("c"), Status: gossip.Joining}, Compat: b.m.Config.Compat, Founder: addr("a")}
		b.snapshot("a", own)
		b.m.Config.Compat = []gossip.KeyValue{{Key: "k", Value: "1"}}
		b.snapshot("a", rows.Row{
			Member:  gossip.Member{Address: addr("z"), Status: gossip.Up, UpNumber: uint32(b.m.Table().Version) + 1},
			Compat:  []gossip.KeyValue{{Key: "k", Value: compat}},
			Founder: addr("a"),
		})
		b.pass(proveInterval)
		for _, from := range []string{"a", "b", "d", "e"} {
			if b.m.Phase == core.Asking {
				b.answer(from)
			}
		}
		require.Equal(t, compat == "1", b.m.Phase == core.Asking)
	}
}
