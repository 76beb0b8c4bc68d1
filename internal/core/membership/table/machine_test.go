package table

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// The protocol between members is tested by the transcripts and the random runs of internal/sim.
// Here are tests of one machine.

func addr(name string) transport.Address { return transport.Address{Name: name, Incarnation: 1} }

// A bench has one member of a cluster of a, b, c and d, which have joined in this order.
type bench struct {
	t   *testing.T
	m   *Machine
	now time.Time
	out core.Output
	all []core.Output // of all steps
}

func newBench(t *testing.T, self string) *bench {
	t.Helper()
	m, err := New(core.Config{Self: addr(self), Cluster: "test"})
	require.NoError(t, err)
	b := &bench{t: t, m: m, now: time.Unix(1_000_000, 0)}
	b.step(core.ConnState{Connected: true, Server: "s1/1", Alone: true})
	var list []rows.Row
	for _, name := range []string{"a", "b", "c", "d"} {
		list = append(list, rows.Row{Member: gossip.Member{Address: addr(name)}, Server: "s1/1", Started: b.now, Alive: b.now})
	}
	m.Preform(b.now, rows.Preformed(list))
	b.step(core.Tick{})
	return b
}

func (b *bench) step(in core.Input) {
	b.t.Helper()
	b.out = b.m.Step(b.now, in)
	b.all = append(b.all, b.out)
	require.NoError(b.t, b.m.Check())
}

func (b *bench) receive(from string, m message.Message) {
	b.t.Helper()
	b.step(core.Receive{From: addr(from), Message: m, Server: "s1/1"})
}

// pass lets time pass in steps of 100 ms, with the node's echoes returning.
func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	for end := b.now.Add(d); b.now.Before(end); {
		b.now = b.now.Add(100 * time.Millisecond)
		b.step(core.Tick{})
		b.echo()
	}
}

// echo returns the echoes that were sent.
func (b *bench) echo() {
	b.t.Helper()
	for _, e := range b.out.Send {
		if echo, ok := e.Message.(message.Echo); ok {
			b.receive(b.m.Config.Self.Name, echo)
		}
	}
}

// change gives the machine the table with one row changed.
func (b *bench) change(name string, change func(*rows.Row)) {
	b.t.Helper()
	row := *b.m.Table().Row(addr(name))
	change(&row)
	from := "a"
	if b.m.Config.Self.Name == from {
		from = "b"
	}
	b.receive(from, message.Snapshot{Base: b.m.Table().Version, Table: &rows.Table{Version: b.m.Table().Version + 1, Rows: []rows.Row{row}}})
}

// sent returns the messages of the last step to a node.
func (b *bench) sent(to string) (all []message.Message) {
	for _, e := range b.out.Send {
		if e.To == addr(to) {
			all = append(all, e.Message)
		}
	}
	return all
}

// ever reports whether any step sent this to a node.
func (b *bench) ever(to string, m message.Message) bool {
	for _, out := range b.all {
		for _, e := range out.Send {
			if e.To == addr(to) && reflect.DeepEqual(e.Message, m) {
				return true
			}
		}
	}
	return false
}

// TestHealth: each of the five signs counts, and for a while only.
func TestHealth(t *testing.T) {
	probed := message.Probe{Target: 1, Seq: 1}
	for name, c := range map[string]struct {
		do   func(b *bench)
		want int
	}{
		"healthy": {func(b *bench) { b.receive("b", probed) }, 0},
		"suspected by two": {func(b *bench) {
			b.receive("b", probed)
			b.change("c", func(r *rows.Row) {
				r.Suspicions = []rows.Suspicion{{By: addr("a"), At: b.now}, {By: addr("d"), At: b.now}}
			})
		}, 2},
		"suspected by one that is not active": {func(b *bench) {
			b.receive("b", probed)
			b.change("c", func(r *rows.Row) { r.Suspicions = []rows.Suspicion{{By: addr("x"), At: b.now}} })
		}, 0},
		"work waits": {func(b *bench) {
			b.step(core.Receive{From: addr("b"), Message: probed, Server: "s1/1", Waited: 1100 * time.Millisecond})
		}, 1},
		"work waits a moment": {func(b *bench) {
			b.step(core.Receive{From: addr("b"), Message: probed, Server: "s1/1", Waited: time.Second})
		}, 0},
		"a timer is a moment late": {func(b *bench) {
			b.receive("b", probed)
			b.step(core.Paused{For: 3 * time.Second})
		}, 0},
		"alone": {func(b *bench) {
			for _, name := range []string{"a", "b", "d"} {
				b.change(name, func(r *rows.Row) { r.Status = gossip.Removed })
			}
			b.pass(65 * time.Second)
		}, 0},
		"timers are late": {func(b *bench) {
			b.receive("b", probed)
			b.step(core.Paused{For: 3100 * time.Millisecond})
		}, 1},
		"neither probed nor answered": {func(b *bench) { b.pass(65 * time.Second) }, 2},
		"not answered": {func(b *bench) {
			b.pass(65 * time.Second)
			b.receive("b", probed)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "c")
			c.do(b)
			b.step(core.Tick{})
			require.Equal(t, c.want, b.m.Health())
			require.Equal(t, c.want, b.m.View().Health)
		})
	}
}

// TestViewOfTheSame: a version in which nothing changed that a view shows is no new view. A step without
// a new version makes none, because that takes long in a large cluster.
func TestViewOfTheSame(t *testing.T) {
	b := newBench(t, "c")
	b.change("b", func(r *rows.Row) { r.Touched++ })
	require.False(t, b.out.Changed)
	shown := b.m.View()
	b.step(core.Tick{})
	require.Same(t, shown, b.m.View())
	b.change("b", func(r *rows.Row) { r.Status = gossip.Leaving })
	require.True(t, b.out.Changed)
}

// TestAsksTheWriter: a member whose proof grows old asks the last writer, too, and not before.
func TestAsksTheWriter(t *testing.T) {
	b := newBench(t, "c")
	asked := func() (n int) {
		for _, out := range b.all {
			for _, e := range out.Send {
				if _, ok := e.Message.(message.Stand); ok && e.To == addr("d") {
					n++
				}
			}
		}
		return n
	}
	row := *b.m.Table().Row(addr("d"))
	row.Touched++
	b.receive("d", message.Snapshot{Base: b.m.Table().Version, Table: &rows.Table{Version: b.m.Table().Version + 1, Rows: []rows.Row{row}}})
	b.pass(100 * time.Millisecond)
	b.m.proved(b.now)
	b.m.stand.due, b.m.lease.doubt = b.now.Add(b.m.Config.Table.StandInterval), false
	b.pass(b.m.Config.Table.StandInterval)
	require.Zero(t, asked())
	b.pass(3 * b.m.Config.Table.StandInterval)
	require.NotZero(t, asked())
}

// TestFirstGuideWrites: the first guide writes as soon as its proof has half of its life left. It does
// not leave that to the one that wrote last, nor ask the others more often than usual.
func TestFirstGuideWrites(t *testing.T) {
	b := newAdmitter(t, "a")
	b.m.proved(b.now)
	b.pass(2400 * time.Millisecond)
	b.change("d", func(r *rows.Row) { r.Touched++ })
	require.Nil(t, b.m.client.writing)
	b.pass(100 * time.Millisecond)
	require.NotNil(t, b.m.client.writing)
	b.pass(time.Second)
	b.all = nil
	b.pass(time.Second)
	stands := 0
	for _, out := range b.all {
		for _, e := range out.Send {
			if _, ok := e.Message.(message.Stand); ok && e.To == addr("b") {
				stands++
			}
		}
	}
	require.LessOrEqual(t, stands, 2)
}

// TestEchoAcrossReconnect: an echo proves nothing that was sent before the node knew that its connection
// had broken: it may have gone through the next one.
func TestEchoAcrossReconnect(t *testing.T) {
	b := newBench(t, "a")
	b.pass(time.Second)
	for !slices.ContainsFunc(b.out.Send, func(e core.Envelope) bool { _, ok := e.Message.(message.Echo); return ok }) {
		b.now = b.now.Add(100 * time.Millisecond)
		b.step(core.Tick{})
	}
	echoes, last := b.out, b.m.echo.Sent
	b.step(core.ConnState{Server: "s1/1"})
	b.out = echoes
	b.echo()
	require.Equal(t, last, b.m.echo.Sent)
}

// TestReadOfTheSame: a read of the version that is known changes nothing.
func TestReadOfTheSame(t *testing.T) {
	b := newAdmitter(t, "a")
	for b.m.client.reading == nil {
		b.pass(time.Second)
		if w := b.m.client.writing; w != nil {
			b.done(w)
		}
	}
	contact, writer, known := b.m.client.contact, b.m.client.writer, len(b.m.known)
	require.NotZero(t, contact)
	b.step(core.TableRows{Number: b.m.client.reading.Number, Table: b.m.Table()})
	require.Equal(t, contact, b.m.client.contact)
	require.Equal(t, writer, b.m.client.writer)
	require.Len(t, b.m.known, known)
}

// TestReadsOlderThanAConflict: after a conflict a member writes nothing, and reads again and again, until a
// read shows a later version.
func TestReadsOlderThanAConflict(t *testing.T) {
	b := newAdmitter(t, "a")
	b.ask("x")
	b.step(core.TableWritten{Number: b.m.client.writing.Number, Conflict: true})
	for range 3 {
		b.step(core.TableRows{Number: b.m.client.reading.Number, Table: b.m.Table()})
		b.pass(200 * time.Millisecond)
		require.NotNil(t, b.m.client.reading)
		require.Nil(t, b.m.client.writing)
	}
	b.step(core.TableRows{Number: b.m.client.reading.Number, Table: b.m.Table().With(b.m.Table().Version+1, nil, nil)})
	require.NotNil(t, b.m.client.writing)
}

// TestReadsOwnDeath: who reads its own death stops at once, by a read, a snapshot or a change.
func TestReadsOwnDeath(t *testing.T) {
	dead := func(b *bench) *rows.Table {
		row := *b.m.Table().Row(addr("c"))
		row.Status, row.Suspicions = gossip.Down, []rows.Suspicion{{By: addr("a")}, {By: addr("d")}}
		return b.m.Table().With(b.m.Table().Version+3, []rows.Row{row}, nil)
	}
	for name, give := range map[string]func(b *bench){
		"snapshot": func(b *bench) { b.receive("a", message.Snapshot{Table: dead(b)}) },
		"read": func(b *bench) {
			b.pass(time.Minute)
			require.NotNil(b.t, b.m.client.reading)
			b.step(core.TableRows{Number: b.m.client.reading.Number, Table: dead(b)})
		},
		"cleaned": func(b *bench) {
			b.receive("a", message.Snapshot{Base: 4, Table: &rows.Table{Version: 5}, Deleted: []transport.Address{addr("c")}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "c")
			give(b)
			require.NotEmpty(t, b.out.Events)
			require.IsType(t, core.SelfDowned{}, b.out.Events[len(b.out.Events)-1])
			require.False(t, b.out.Lease.After(b.now))
			require.Zero(t, b.out.WakeAt)
		})
	}
}

// TestChangesInAnotherOrder: a change is applied to the version over which it was written only. One
// that comes too early waits for those before it; if they do not come, its writer and the guides are
// asked.
func TestChangesInAnotherOrder(t *testing.T) {
	b := newBench(t, "c")
	row := *b.m.Table().Row(addr("d"))
	row.Status = gossip.Leaving
	b.receive("d", message.Snapshot{Base: 6, Table: &rows.Table{Version: 7, Rows: []rows.Row{row}}})
	require.Equal(t, uint64(4), b.m.Table().Version)
	began := b.now
	for len(b.sent("d")) == 0 {
		b.pass(50 * time.Millisecond)
	}
	require.IsType(t, message.Stand{}, b.sent("d")[0])
	require.IsType(t, message.Stand{}, b.sent("a")[0])
	require.LessOrEqual(t, b.now.Sub(began), recentChange)
	b.receive("d", message.Snapshot{Base: 6, Table: &rows.Table{Version: 7, Rows: []rows.Row{row}}})
	b.receive("e", message.Snapshot{Base: 4, Table: &rows.Table{Version: 6}})
	require.Equal(t, uint64(7), b.m.Table().Version)
	require.Equal(t, gossip.Leaving, b.m.Table().Row(addr("d")).Status)
	require.Equal(t, addr("d"), b.m.client.writer)
}

// TestWholeTableFits: the whole table is sent only where it fits a message, and not to a member that
// lacks only changes whose broadcasts may be on their way.
func TestWholeTableFits(t *testing.T) {
	b := newBench(t, "a")
	b.receive("c", message.Stand{Target: 1, Seq: 8, Version: 3})
	require.NotContains(t, fmt.Sprintf("%T", b.sent("c")[0]), "Snapshot")
	b.pass(recentChange)
	for _, c := range []struct {
		limit int
		sent  bool
	}{{0, true}, {1 << 20, true}, {100, false}} {
		b.step(core.MessageLimit{Bytes: c.limit})
		b.receive("c", message.Stand{Target: 1, Seq: 9, Version: 3})
		_, sent := b.sent("c")[0].(message.Snapshot)
		require.Equal(t, c.sent, sent, "limit %d", c.limit)
	}
}

// TestProbeOfALaterVersion: a member does not answer a joiner whose row it does not know, and reads the
// table, so that it can answer the next probe.
func TestProbeOfALaterVersion(t *testing.T) {
	b := newBench(t, "a")
	b.receive("x", message.Probe{Target: 1, Seq: 7, Version: 5})
	require.Empty(t, b.sent("x"))
	require.NotNil(t, b.out.ReadTable)
}

// TestIndirectProbe: a third member probes for another, and says no when its time is up.
func TestIndirectProbe(t *testing.T) {
	b := newBench(t, "c")
	b.pass(time.Second)
	ask := message.IndirectProbe{Target: 1, Seq: 7, Subject: addr("d"), Within: time.Second}
	b.receive("a", ask)
	probe := b.sent("d")[0].(message.Probe)
	b.receive("b", message.ProbeAck{Target: 1, Seq: probe.Seq, Version: 4})
	require.Empty(t, b.sent("a"), "b is not the subject")
	b.receive("d", message.ProbeAck{Target: 1, Seq: probe.Seq, Version: 4})
	require.Contains(t, b.sent("a"), message.Message(message.IndirectAck{Target: 1, Seq: 7, Reached: true}))
	b.receive("a", ask)
	b.all = nil
	b.pass(900 * time.Millisecond)
	no := message.IndirectAck{Target: 1, Seq: 7}
	require.False(t, b.ever("a", no))
	b.pass(200 * time.Millisecond)
	require.True(t, b.ever("a", no))
}

// TestStandExcepts: who may have declared a member dead names it in its stands, until the version
// shows whether it has.
func TestStandExcepts(t *testing.T) {
	b := newBench(t, "d")
	b.pass(time.Second)
	b.m.client.unsure = []unsure{{addr("b"), 4}}
	require.Equal(t, []transport.Address{addr("b")}, b.m.unsureNodes())
	b.change("c", func(r *rows.Row) { r.Quarantined = true })
	require.Empty(t, b.m.unsureNodes(), "the version is another: the declaration is not written any more")
}

// TestUnknownDeath: a declaration of unknown outcome makes its subject an exception.
func TestUnknownDeath(t *testing.T) {
	b := newBench(t, "d")
	b.pass(time.Second)
	b.m.peer(addr("b")).probe.forced = true
	b.m.note(addr("b"))
	b.m.client.reached = b.now
	b.step(core.Tick{})
	require.NotNil(t, b.out.WriteTable)
	require.Equal(t, gossip.Down, b.out.WriteTable.Rows[0].Status)
	require.Equal(t, []transport.Address{addr("b")}, b.m.unsureNodes(), "on its way")
	b.step(core.TableWritten{Number: b.m.client.writing.Number, Reason: "no answer"})
	require.Equal(t, []transport.Address{addr("b")}, b.m.unsureNodes(), "it may still be written")
}

// TestNoDeathWithoutTable: nobody is declared dead while the table does not answer.
func TestNoDeathWithoutTable(t *testing.T) {
	b := newBench(t, "d")
	b.pass(3 * time.Second)
	b.m.peer(addr("b")).probe.forced = true
	b.m.note(addr("b"))
	b.all = nil
	b.pass(10 * time.Second)
	for _, out := range b.all {
		if w := out.WriteTable; w != nil {
			require.Equal(t, gossip.Up, w.Rows[0].Status)
		}
	}
}

// TestContacts: stands say when their sender last exchanged stands with each dead member. They say
// nothing if more than maxContacts are dead.
func TestContacts(t *testing.T) {
	b := newBench(t, "a")
	b.receive("d", message.Stand{Target: 1, Seq: 1, Version: 4})
	b.now = b.now.Add(3 * time.Second)
	b.change("d", func(r *rows.Row) { r.Status = gossip.Down })
	want := []message.Contact{{Node: addr("d"), Age: 3 * time.Second}}
	for i := range maxContacts {
		require.Equal(t, want, b.m.contacts())
		x := addr(fmt.Sprintf("x%02d", i))
		b.snapshot("b", rows.Row{Member: gossip.Member{Address: x, Status: gossip.Down}, Founder: addr("a")})
		want = append(want, message.Contact{Node: x, Age: b.m.Config.Table.Outage})
	}
	require.Empty(t, b.m.contacts())
}

// TestFenceAfterReconnect: who has made its connection again fences by time only when it has met all
// members that may not know of the death, and counts from the last meeting.
func TestFenceAfterReconnect(t *testing.T) {
	b := newBench(t, "a")
	b.pass(time.Second)
	b.change("d", func(r *rows.Row) { r.Status = gossip.Down })
	d := b.m.deaths[addr("d")]
	byTime := 5*time.Second + 100*time.Millisecond + time.Second
	require.Equal(t, b.now.Add(byTime), b.m.fencedAt(b.m.table.Row(addr("d")), d), "a is the first guide")

	b.pass(time.Second)
	b.step(core.ConnState{})
	b.step(core.ConnState{Connected: true, Server: "s1/1", Alone: true})
	require.Greater(t, b.m.fencedAt(b.m.table.Row(addr("d")), d).Sub(b.now), 50*time.Minute, "it has met nobody")

	answer := func(version uint64) {
		b.all = nil
		b.pass(time.Second)
		for _, out := range b.all {
			for _, e := range out.Send {
				if p, ok := e.Message.(message.Probe); ok && p.Version == 1 {
					b.receive(e.To.Name, message.ProbeAck{Target: 1, Seq: p.Seq, Version: version})
				}
			}
		}
	}
	answer(0)
	require.Zero(t, b.m.peer(addr("b")).met, "b does not know the row of a")
	answer(4)
	met := b.now
	require.Greater(t, b.m.fencedAt(b.m.table.Row(addr("d")), d).Sub(b.now), 50*time.Minute, "d, which died, has not answered")
	b.m.peer(addr("d")).met = met
	require.Equal(t, met.Add(byTime), b.m.fencedAt(b.m.table.Row(addr("d")), d))
}

// TestFenceByBroker: the broker's word counts if it answers something sent after the death was
// known, at the server that the dead row names, and not before the last echo's lease has ended.
func TestFenceByBroker(t *testing.T) {
	b := newBench(t, "a")
	b.pass(time.Second)
	b.change("d", func(r *rows.Row) { r.Status = gossip.Down })
	d := b.m.deaths[addr("d")]
	gone := core.Unreachable{Peer: addr("d"), Server: "s1/1"}
	b.now = b.now.Add(10 * time.Millisecond)
	b.step(gone)
	require.Zero(t, d.bounced, "it may answer what was sent before")
	b.pass(400 * time.Millisecond)
	b.step(core.Unreachable{Peer: addr("d"), Server: "s2/1"})
	require.Zero(t, d.bounced, "of another server")
	b.step(gone)
	require.Equal(t, b.now.Add(time.Second+20*time.Millisecond), b.m.fencedAt(b.m.table.Row(addr("d")), d))
}

// TestFenceByAnotherServer: the answer of a dead member's own server counts if it answers a question
// asked after the death was known.
func TestFenceByAnotherServer(t *testing.T) {
	b := newBench(t, "a")
	b.pass(time.Second)
	b.step(core.ConnState{Connected: true, Server: "s1/1"})
	b.all = nil
	b.change("d", func(r *rows.Row) { r.Status, r.Server = gossip.Down, "s2 s2/1" })
	d := b.m.deaths[addr("d")]
	b.pass(time.Second)
	question := core.Question{Peer: addr("d"), Server: message.MarkOf("s2/1")}
	require.True(t, slices.ContainsFunc(b.all, func(o core.Output) bool {
		return slices.ContainsFunc(o.Ask, func(q core.Question) bool { return q.Peer == question.Peer && q.Server == question.Server })
	}), "it asks")
	question.At = d.known.Add(-time.Millisecond)
	b.step(core.Asked{Question: question})
	require.Zero(t, d.bounced, "it may be older than the death")
	question.At = d.known
	b.step(core.Asked{Question: question})
	require.Equal(t, b.now.Add(time.Second+20*time.Millisecond), b.m.fencedAt(b.m.table.Row(addr("d")), d))
}

// TestGuidesFenceInTurn: the guides fence one after the other, because only one write is needed.
func TestGuidesFenceInTurn(t *testing.T) {
	for i, self := range []string{"a", "b", "c"} {
		b := newBench(t, self)
		b.pass(time.Second)
		b.change("d", func(r *rows.Row) { r.Status = gossip.Down })
		byTime := 5*time.Second + 100*time.Millisecond + time.Second
		turn := time.Duration(i) * 300 * time.Millisecond
		require.Equal(t, b.now.Add(byTime+turn), b.m.fencedAt(b.m.table.Row(addr("d")), b.m.deaths[addr("d")]), self)
		b.now = b.now.Add(byTime + turn)
		b.step(core.Tick{})
		_, due := b.m.wantedFence()
		require.False(t, due, "no echo has returned lately")
		b.echo()
		_, due = b.m.wantedFence()
		require.True(t, due)
	}
}

// TestMessagesToTheDead: a dead member that is not fenced gets a message every 200 ms at first, which
// the broker answers if nobody listens, and every 10 s after a minute.
func TestMessagesToTheDead(t *testing.T) {
	b := newBench(t, "a")
	b.change("d", func(r *rows.Row) { r.Status = gossip.Down })
	sent := func(d time.Duration) (n int) {
		b.all = nil
		b.pass(d)
		for _, out := range b.all {
			for _, e := range out.Send {
				if _, ok := e.Message.(message.Removal); ok && e.To == addr("d") {
					n++
				}
			}
		}
		return n
	}
	require.Equal(t, 50, sent(10*time.Second))
	require.Equal(t, 251, sent(51*time.Second))
	require.Equal(t, 3, sent(30*time.Second))
}

// stands has members stand at the present version, twice, so that a guide knows since when.
func (b *bench) stands(except transport.Address, names ...string) {
	b.t.Helper()
	for _, name := range names {
		m := message.Stand{Target: 1, Seq: 1, Version: b.m.Table().Version, Server: message.MarkOf("s1/1")}
		if name == "d" && !except.IsZero() {
			m.Except = []transport.Address{except}
		}
		b.receive(name, m)
		m.Seq, m.Got = 2, b.ack(name).Number
		b.receive(name, m)
	}
}

// ack is the answer to a stand in the last step.
func (b *bench) ack(to string) message.StandAck {
	b.t.Helper()
	for _, m := range b.sent(to) {
		if ack, ok := m.(message.StandAck); ok {
			return ack
		}
	}
	b.t.Fatalf("no answer to %s", to)
	return message.StandAck{}
}

// TestUnanimity: a guide vouches for its version where all others stand at it, since the oldest of
// their stands; but to no member that one of them may have declared dead.
func TestUnanimity(t *testing.T) {
	b := newBench(t, "a")
	b.pass(time.Second)
	b.stands(transport.Address{}, "b", "c")
	require.Zero(t, b.ack("c").Age, "d does not stand")
	b.stands(transport.Address{}, "d")
	b.now = b.now.Add(300 * time.Millisecond)
	b.stands(addr("b"), "d")
	b.now = b.now.Add(agreedLife)
	b.receive("c", message.Stand{Target: 1, Seq: 3, Version: 4})
	require.Equal(t, 300*time.Millisecond+agreedLife, b.ack("c").Age)
	require.Zero(t, b.ack("c").Written)
	b.receive("b", message.Stand{Target: 1, Seq: 3, Version: 4})
	require.Zero(t, b.ack("b").Age, "d may have declared b dead")

	b.now = b.now.Add(100 * time.Millisecond)
	b.receive("c", message.Stand{Target: 1, Seq: 4, Version: 5})
	b.receive("b", message.Stand{Target: 1, Seq: 4, Version: 4})
	require.Zero(t, b.ack("b").Age)
}

// TestStandCountsFromItsAnswer: a stand counts from the sending of the answer that it names, although
// the guide has sent later ones. The member had not received those when it sent the stand.
func TestStandCountsFromItsAnswer(t *testing.T) {
	b := newBench(t, "a")
	stand := message.Stand{Target: 1, Seq: 1, Version: 4}
	b.receive("d", stand)
	first, answered := b.ack("d").Number, b.now
	b.now = b.now.Add(300 * time.Millisecond)
	b.receive("d", stand)
	stand.Got = first
	b.receive("d", stand)
	require.Equal(t, answered, b.m.peer(addr("d")).stood.at)
}

// TestLeftOut: a member that the broker does not know any more is left out of unanimity if it stood
// lately, until it is heard again.
func TestLeftOut(t *testing.T) {
	gone := core.Unreachable{Peer: addr("d"), Server: "s1/1"}
	for _, c := range []struct {
		after time.Duration
		left  bool
	}{{0, false}, {3900 * time.Millisecond, true}, {4100 * time.Millisecond, false}} {
		b := newBench(t, "a")
		if c.after > 0 {
			b.stands(transport.Address{}, "d")
			b.now = b.now.Add(c.after)
		}
		b.step(gone)
		require.Equal(t, c.left, b.m.peer(addr("d")).left, "%v after its stand", c.after)
		b.receive("d", message.Touch{Target: 1})
		require.False(t, b.m.peer(addr("d")).left)
	}
	// It goes on through another server, which its row does not name yet. What it sent before may
	// arrive later.
	for name, moved := range map[string]message.Message{
		"stand": message.Stand{Target: 1, Seq: 9, Version: 4, Server: message.MarkOf("s2/1")},
		"probe": message.Probe{Target: 1, Seq: 9, Server: message.MarkOf("s2/1")},
	} {
		b := newBench(t, "a")
		b.stands(transport.Address{}, "d")
		b.receive("d", moved)
		b.receive("d", message.Probe{Target: 1, Seq: 8, Server: message.MarkOf("s1/1")})
		b.step(gone)
		require.False(t, b.m.peer(addr("d")).left, name)
	}
}

// TestReconnectForgetsWhoIsLeftOut: a guide whose connection is made again leaves nobody out that has
// not stood since: the broker's word came through another connection.
func TestReconnectForgetsWhoIsLeftOut(t *testing.T) {
	b := newBench(t, "a")
	b.stands(transport.Address{}, "b", "c", "d")
	b.step(core.Unreachable{Peer: addr("d"), Server: "s1/1"})
	require.True(t, b.m.peer(addr("d")).left)
	b.step(core.ConnState{})
	b.step(core.ConnState{Connected: true, Server: "s1/1", Alone: true})
	b.step(core.Unreachable{Peer: addr("d"), Server: "s1/1"})
	require.False(t, b.m.peer(addr("d")).left)
	b.pass(100 * time.Millisecond)
	b.stands(transport.Address{}, "b", "c")
	require.Zero(t, b.ack("c").Age)
}

// TestOutageEndsUnanimity: unanimity counts for Outage after the last I-am-alive write that any
// member knows of. Newcomers that know nobody count on that.
func TestOutageEndsUnanimity(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		alive time.Duration // since the last write that d knows of
		ok    bool
	}{{59 * time.Minute, 0, true}, {61 * time.Minute, 0, false}, {61 * time.Minute, 59 * time.Minute, true}} {
		b := newBench(t, "a")
		b.now = b.now.Add(c.after)
		b.stands(transport.Address{}, "b", "c", "d")
		b.now = b.now.Add(agreedLife)
		b.receive("d", message.Stand{Target: 1, Seq: 3, Version: 4, Got: b.ack("d").Number, Alive: c.alive})
		b.now = b.now.Add(agreedLife)
		b.receive("c", message.Stand{Target: 1, Seq: 3, Version: 4})
		require.Equal(t, c.ok, b.ack("c").Age != 0, "%+v", c)
	}
}

// TestOtherTable: a node whose table is empty makes no first row while a member of the cluster
// answers it that is not in its table. It gives up with the reason.
func TestOtherTable(t *testing.T) {
	for _, answered := range []bool{false, true} {
		m, err := New(core.Config{Self: addr("c"), Cluster: "test"})
		require.NoError(t, err)
		b := &bench{t: t, m: m, now: time.Unix(1_000_000, 0)}
		b.step(core.ConnState{Connected: true, Server: "s1/1", Alone: true})
		b.step(core.Start{})
		wrote, failed := false, ""
		for end := b.now.Add(m.Config.JoinTimeout + time.Second); b.now.Before(end) && !wrote; {
			b.now = b.now.Add(20 * time.Millisecond)
			b.step(core.Tick{})
			out := b.out
			for _, e := range out.Events {
				if e, ok := e.(core.JoinFailed); ok {
					failed = e.Err.Error()
				}
			}
			if out.ReadTable != nil {
				b.step(core.TableRows{Number: out.ReadTable.Number, Table: &rows.Table{}})
			}
			wrote = wrote || out.WriteTable != nil || b.out.WriteTable != nil
			for _, e := range out.Send {
				if hello, ok := e.Message.(message.Hello); ok {
					b.receive("c", hello)
					if answered {
						b.receive("x", message.HelloAck{Target: message.TargetOf(addr("c"))})
					}
				}
			}
			wrote = wrote || b.out.WriteTable != nil
		}
		require.Equal(t, !answered, wrote)
		if answered {
			require.Contains(t, failed, "x#0000000000000001 is a member of this cluster, but not in this node's table (give both nodes the same table)")
		}
	}
}

// TestFenceOfASilentMember: the time of a fence runs from the last moment of which the dead member
// may have a proof, once every active member has said when it last exchanged stands with it.
func TestFenceOfASilentMember(t *testing.T) {
	b := newBench(t, "a")
	dead := func() *rows.Row { return b.m.table.Row(addr("d")) }
	b.pass(time.Second)
	b.receive("d", message.Stand{Target: message.TargetOf(addr("a")), Seq: 1, Version: 4})
	last := b.now
	b.pass(7 * time.Second)
	b.change("d", func(r *rows.Row) { r.Status = gossip.Down })
	d := b.m.deaths[addr("d")]
	byTime := 5*time.Second + 100*time.Millisecond + time.Second
	stand := func(from string, age time.Duration) {
		b.receive(from, message.Stand{
			Target: message.TargetOf(addr("a")), Seq: 1, Version: 5, Dead: []message.Contact{{Node: addr("d"), Age: age}},
		})
	}
	stand("b", 24*time.Hour)
	require.Equal(t, d.known.Add(byTime), b.m.fencedAt(dead(), d), "c has not said anything")
	stand("c", 10*time.Second)
	quorum := byTime - time.Second
	require.Equal(t, last.Add(quorum), b.m.fencedAt(dead(), d), "the own answer to it was the last")
	stand("c", 5*time.Second)
	require.Equal(t, b.now.Add(-5*time.Second+100*time.Millisecond+time.Millisecond+quorum), b.m.fencedAt(dead(), d), "the clock of c may be fast")
	stand("c", 10*time.Second)
	require.Equal(t, b.now.Add(-5*time.Second+100*time.Millisecond+time.Millisecond+quorum), b.m.fencedAt(dead(), d), "an older stand comes late")

	b.change("d", func(r *rows.Row) { r.Touched = 5 })
	require.Equal(t, d.known.Add(quorum), b.m.fencedAt(dead(), d), "it wrote the version that this node knew with the death")
}

// TestNoProofByAnothersRow: only a write of the own row is a proof, because only it shows in that row.
func TestNoProofByAnothersRow(t *testing.T) {
	b := newBench(t, "a")
	write := func(name string) *core.TableWrite {
		for range 100 {
			b.pass(100 * time.Millisecond)
			if w := b.m.client.writing; w != nil {
				written := b.m.lease.written
				b.step(core.TableWritten{Number: w.Number, Done: true, Version: w.Version + 1})
				require.Equal(t, w.Rows[0].Name == "a", b.m.lease.written.After(written))
				if w.Rows[0].Name == name {
					return w
				}
			}
		}
		require.Fail(t, "nothing was written", name)
		return nil
	}
	b.pass(time.Second)
	w := write("a")
	require.Equal(t, w.Version+1, w.Rows[0].Touched)
	require.Equal(t, w.Version+1, b.m.Table().Row(addr("a")).Touched)
	b.m.peer(addr("d")).probe.quarantine = true
	b.m.note(addr("d"))
	require.Zero(t, write("d").Rows[0].Touched)
}

// TestSilence: a guide of a small cluster votes against a member that it has not heard for
// AgreedAfter, while it hears more than half of the members.
func TestSilence(t *testing.T) {
	for _, others := range [][]string{{"b", "c"}, {"b"}} {
		b := newBench(t, "a")
		for _, from := range []string{"b", "c", "d"} {
			b.receive(from, message.Stand{Target: message.TargetOf(addr("a")), Seq: 1, Version: 4})
		}
		for range 49 {
			b.pass(100 * time.Millisecond)
			for _, from := range others {
				b.receive(from, message.Stand{Target: message.TargetOf(addr("a")), Seq: 2, Version: 4})
			}
		}
		require.False(t, b.m.peer(addr("d")).votes())
		b.pass(time.Second)
		require.Equal(t, len(others) == 2, b.m.peer(addr("d")).votes(), "hears %v", others)
		b.receive("d", message.Stand{Target: message.TargetOf(addr("a")), Seq: 3, Version: 4})
		require.False(t, b.m.peer(addr("d")).votes())
	}
}

// TestFenceOfOneThatDiedBefore: a member that was dead before this one became active has never met
// it, and may agree with others that nobody has died. It is not fenced by time.
func TestFenceOfOneThatDiedBefore(t *testing.T) {
	b := newBench(t, "a")
	b.pass(time.Second)
	b.change("d", func(r *rows.Row) { r.Status = gossip.Down })
	require.Less(t, b.m.fencedAt(b.m.table.Row(addr("d")), b.m.deaths[addr("d")]).Sub(b.now), 10*time.Second)
	b.change("a", func(r *rows.Row) { r.UpNumber = 6 })
	b.m.joiner.version, b.m.joiner.entered = 6, 6 // as if it had joined just now
	require.Greater(t, b.m.fencedAt(b.m.table.Row(addr("d")), b.m.deaths[addr("d")]).Sub(b.now), 50*time.Minute)
}

// TestCleaningWaitsForJoiners: a row is deleted only by a member that has known it for longer than a
// node may take to join, because the times in the rows are by other clocks.
func TestCleaningWaitsForJoiners(t *testing.T) {
	b := newBench(t, "a")
	b.pass(2*b.m.Config.JoinTimeout + time.Second)
	b.change("d", func(r *rows.Row) { r.Status, r.Ended = gossip.Removed, b.now.Add(-1000*time.Hour) })
	_, due := b.m.wantedCleaning()
	require.True(t, due, "it has known d from the beginning")
	b.m.pasts = b.m.pasts[:1]
	for ago, want := range map[time.Duration]bool{0: false, 2*b.m.Config.JoinTimeout - 1: false, 2 * b.m.Config.JoinTimeout: true} {
		b.m.pasts[0].at = b.now.Add(-ago)
		_, due = b.m.wantedCleaning()
		require.Equal(t, want, due, "it has known d for %v", ago)
	}
}

// TestKeepsPasts: a table is kept if the last one was kept half of AliveInterval ago.
func TestKeepsPasts(t *testing.T) {
	b := newBench(t, "a")
	for _, c := range []struct {
		pass time.Duration
		want int
	}{{b.m.Config.Table.AliveInterval/2 - 1, 1}, {1, 2}} {
		b.now = b.now.Add(c.pass)
		b.change("d", func(*rows.Row) {})
		require.Len(t, b.m.pasts, c.want)
	}
}

// TestCleaningInParts: one write deletes at most 100 rows: stores refuse more (membertable.MaxDelete).
func TestCleaningInParts(t *testing.T) {
	b := newBench(t, "a")
	var ended []rows.Row
	for i := range 150 {
		member := gossip.Member{Address: addr(fmt.Sprintf("x%03d", i)), Status: gossip.Removed}
		ended = append(ended, rows.Row{Member: member, Ended: b.now.Add(-1000 * time.Hour)})
	}
	b.receive("b", message.Snapshot{Table: b.m.Table().With(5, ended, nil)})
	b.m.pasts = []past{{b.now.Add(-time.Hour), b.m.Table()}}
	w, _ := b.m.wantedCleaning()
	require.Len(t, w.Delete, 100)
}

// TestFenceWaitsAfterAnEnd: a member that was fenced or has left may have given a proof just before, so
// the fence of a silent one counts from then at the earliest.
func TestFenceWaitsAfterAnEnd(t *testing.T) {
	b := newBench(t, "a")
	b.pass(10 * time.Second)
	b.change("d", func(r *rows.Row) { r.Status = gossip.Down })
	d := b.m.deaths[addr("d")]
	for _, from := range []string{"b", "c"} {
		b.receive(from, message.Stand{
			Target: message.TargetOf(addr("a")), Seq: 1, Version: 5, Dead: []message.Contact{{Node: addr("d"), Age: 24 * time.Hour}},
		})
	}
	quorum := 5*time.Second + 100*time.Millisecond
	require.False(t, b.m.fencedAt(b.m.table.Row(addr("d")), d).After(b.now))
	b.change("c", func(r *rows.Row) { r.Status = gossip.Removed })
	require.Equal(t, b.now.Add(quorum), b.m.fencedAt(b.m.table.Row(addr("d")), d))
	b.pass(500 * time.Millisecond)
	b.snapshot("b", rows.Row{Member: gossip.Member{Address: addr("x"), Status: gossip.Removed}, Founder: addr("a")})
	require.Equal(t, b.now.Add(quorum), b.m.fencedAt(b.m.table.Row(addr("d")), d), "x has joined and left unseen")
}

// TestDeadMembersGaveEachOther: a dead member may have the proof of another dead one. So its fence
// counts from the last moment at which an active member exchanged stands with any of them, also after
// the other was fenced.
func TestDeadMembersGaveEachOther(t *testing.T) {
	b := newBench(t, "a")
	b.pass(10 * time.Second)
	for _, name := range []string{"c", "d"} {
		b.change(name, func(r *rows.Row) { r.Status = gossip.Down })
	}
	fence := func() time.Time { return b.m.fencedAt(b.m.table.Row(addr("d")), b.m.deaths[addr("d")]) }
	byTime := fence()
	say := func(dead ...message.Contact) {
		b.receive("b", message.Stand{Target: message.TargetOf(addr("a")), Seq: 1, Version: 6, Dead: dead})
	}
	say(message.Contact{Node: addr("d"), Age: 24 * time.Hour})
	require.Equal(t, byTime, fence(), "b has not said when it met c")
	say(message.Contact{Node: addr("c"), Age: time.Second})
	met := b.now.Add(-time.Second + time.Second/clockSpread + time.Millisecond)
	require.Equal(t, met.Add(5*time.Second+100*time.Millisecond), fence())
	b.change("c", func(r *rows.Row) { r.Fenced = true })
	require.Equal(t, met.Add(5*time.Second+100*time.Millisecond), fence())
}

// TestJoinerThatStoodStill: the answers to the hellos of a joiner that stood still may be in its
// queue. So it waits for them again before it makes the first row.
func TestJoinerThatStoodStill(t *testing.T) {
	m, err := New(core.Config{Self: addr("c"), Cluster: "test"})
	require.NoError(t, err)
	b := &bench{t: t, m: m, now: time.Unix(1_000_000, 0)}
	b.step(core.ConnState{Connected: true, Server: "s1/1", Alone: true})
	b.step(core.Start{})
	b.step(core.TableRows{Number: b.out.ReadTable.Number, Table: &rows.Table{}})
	b.receive("c", message.Hello{Attempt: 1})
	b.now = b.now.Add(time.Second)
	b.step(core.Tick{})
	require.Nil(t, b.out.WriteTable)
	b.now = b.now.Add(m.Config.FormWindow)
	b.step(core.Tick{})
	require.NotNil(t, b.out.WriteTable)
}

// TestRefusal: only a final refusal of this incarnation ends a joiner.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		target      uint32
		final, ends bool
	}{{1, true, true}, {2, true, false}, {1, false, false}} {
		b := newJoiner(t, 0)
		b.receive("x", message.JoinRefused{Target: c.target, Final: c.final})
		require.Equal(t, c.ends, b.m.Phase == core.Ended, "%+v", c)
	}
}

// TestHellosAreNumbered: a joiner numbers its hellos, because in a large cluster by gossip more members
// answer the later ones.
func TestHellosAreNumbered(t *testing.T) {
	m, err := New(core.Config{Self: addr("c"), Cluster: "test"})
	require.NoError(t, err)
	b := &bench{t: t, m: m, now: time.Unix(1_000_000, 0)}
	b.step(core.ConnState{Connected: true, Server: "s1/1", Alone: true})
	b.step(core.Start{})
	b.step(core.TableRows{Number: b.out.ReadTable.Number, Table: &rows.Table{}})
	b.pass(2 * helloInterval)
	var numbers []uint32
	for _, out := range b.all {
		for _, e := range out.Send {
			if hello, ok := e.Message.(message.Hello); ok {
				numbers = append(numbers, hello.Attempt)
			}
		}
	}
	require.Equal(t, []uint32{1, 2, 3}, numbers)
}

// TestViewNamesWhoIsAwaited: the view of a joiner names a member that has not answered yet, and another
// one as soon as that member has answered.
func TestViewNamesWhoIsAwaited(t *testing.T) {
	m, err := New(core.Config{Self: addr("c"), Cluster: "test"})
	require.NoError(t, err)
	b := &bench{t: t, m: m, now: time.Unix(1_000_000, 0)}
	b.step(core.ConnState{Connected: true, Server: "s1/1", Alone: true})
	b.step(core.Start{})
	var list []rows.Row
	for _, name := range []string{"a", "b", "c"} {
		list = append(list, rows.Row{Member: gossip.Member{Address: addr(name)}, Server: "s1/1", Started: b.now, Alive: b.now})
	}
	table := rows.Preformed(list)
	table.Rows[2].Status, table.Rows[2].UpNumber = gossip.Joining, 0
	b.step(core.TableRows{Number: b.out.ReadTable.Number, Table: table})
	b.step(core.Tick{})
	require.Contains(t, b.m.View().Why, "a#0000000000000001 does not answer")
	probe := b.sent("a")[0].(message.Probe)
	b.receive("a", message.ProbeAck{Target: 1, Seq: probe.Seq, Version: table.Version})
	require.Contains(t, b.m.View().Why, "b#0000000000000001 does not answer")
}

// TestOtherClusterIsNamed: a guide greets now and then, and names a cluster of another table whose
// member answers. One of its own table answers with its own founder.
func TestOtherClusterIsNamed(t *testing.T) {
	b := newBench(t, "a")
	greeted := func(d time.Duration) (n int) {
		b.all = nil
		b.pass(d)
		for _, out := range b.all {
			for _, e := range out.Send {
				if _, ok := e.Message.(message.Hello); ok && e.Broadcast {
					n++
				}
			}
		}
		return n
	}
	require.Equal(t, 1, greeted(2*time.Second))
	require.Equal(t, 2, greeted(2*b.m.Config.Table.Refresh))
	b.receive("x", message.HelloAck{Target: message.TargetOf(addr("a")), Founder: b.m.self().Founder})
	require.Empty(t, b.out.Events)
	b.receive("x", message.HelloAck{Target: message.TargetOf(addr("a")), Founder: addr("y")})
	require.Equal(t, []core.Event{core.OtherTable{Node: addr("x"), Founder: addr("y")}}, b.out.Events)
	b.receive("y", message.Hello{Attempt: 1})
	require.Equal(t, []message.Message{message.HelloAck{Target: message.TargetOf(addr("y")), Founder: addr("a")}}, b.sent("y"))
}

// TestCommandsOutliveConnections: an operator's command, and a quarantine, are no conclusions from
// silence, and are carried out after the connection was made again.
func TestCommandsOutliveConnections(t *testing.T) {
	b := newBench(t, "a")
	b.pass(time.Second)
	b.m.onDownNode(addr("d"))
	b.m.onUndeliverable(addr("c"))
	b.step(core.ConnState{})
	b.step(core.ConnState{Connected: true, Server: "s1/1", Alone: true})
	require.True(t, b.m.peer(addr("d")).probe.forced)
	require.True(t, b.m.peer(addr("c")).probe.quarantine)
}
