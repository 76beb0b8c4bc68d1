package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/runner"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A stand is a node that was not started, with one open shard of a type whose hooks and methods the
// test sets. It has no lease until the test gives it one.
type stand struct {
	driver   *Driver
	host     *Host
	shard    *HostedShard
	sent     recorder
	activate func()
	ran      int // number of turns of the type's only method
}

// A recorder is a link that keeps what was sent.
type recorder struct {
	transport.Link
	frames [][]byte
}

func (r *recorder) MaxPayload() int { return 1 << 20 }

func (r *recorder) Send(_ transport.Channel, _ transport.Peer, _ uint64, payload []byte) error {
	r.frames = append(r.frames, append([]byte(nil), payload...))
	return nil
}

func newStand(t *testing.T) *stand {
	st := &stand{activate: func() {}}
	st.driver = NewDriver(testConfig(), testPeer, knowing{})
	var link transport.Link = &st.sent
	st.driver.tr.Store(&link)
	t.Cleanup(func() {
		st.driver.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.True(t, st.driver.Group.Wait(ctx))
	})
	desc := codegen.Host{
		Kind: codegen.Kind{Name: "Cart", Package: "shop", Shards: 1},
		New:  func() any { return new(int) },
		Dispatch: map[string]codegen.Method{"Add": func(_ context.Context, _ any, _, out []byte) ([]byte, error) {
			st.ran++
			return out, nil
		}},
		Activate: func(context.Context, any, codegen.Activation) error { st.activate(); return nil },
	}
	var err error
	st.host, err = NewHost(st.driver, st.driver.Kind(desc.Kind), desc, Settings{MailboxCalls: 8, Idle: time.Minute})
	require.NoError(t, err)
	st.shard = &st.host.Shards[0]
	st.shard.Core.Place(st.driver.Local.Address, placement.MakeEpoch(1, 1), false, 0, time.Now())
	return st
}

// take begins a turn of an entity.
func (st *stand) take(id string) *region.Entity {
	st.shard.Mu.Lock()
	defer st.shard.Mu.Unlock()
	return st.shard.Core.Take(id, 1)
}

// lose ends the lease, for use while an entity is activated.
func (st *stand) lose() { st.driver.Lease.End(runner.Over) }

// TestNoTurnWhenTheLeaseEndsInOnActivate: no turn begins if the lease has ended during a long
// OnActivate, because another node may have the entity.
func TestNoTurnWhenTheLeaseEndsInOnActivate(t *testing.T) {
	t.Run("of a call from elsewhere", func(t *testing.T) {
		st := newStand(t)
		st.driver.Lease.Renew(time.Time{})
		st.activate = st.lose
		c := &InCall{Call: shardhost.Call{ID: 1, Method: []byte("Add")}}
		a := c.execute(st.shard, st.take("x"))
		require.Equal(t, wire.CodeStopped, a.code)
		require.Zero(t, st.ran)
	})
	t.Run("of a call from here", func(t *testing.T) {
		st := newStand(t)
		st.driver.Lease.Renew(time.Time{})
		st.activate = st.lose
		_, err := st.shard.begin(context.Background(), nil, st.take("x"), "Add", 0, 0, false)
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, calls.NotExecuted, outcomeOf(err))
	})
	t.Run("until it is renewed", func(t *testing.T) {
		st := newStand(t)
		st.driver.Lease.Renew(time.Time{})
		ctx, cancel := context.WithCancel(context.Background())
		st.activate = func() {
			st.driver.Lease.Renew(st.driver.Lease.Base()) // over
			cancel()
		}
		_, err := st.shard.begin(ctx, nil, st.take("x"), "Add", 0, 0, false)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, calls.NotExecuted, outcomeOf(err))
	})
}

// TestNoTurnBeginsWhileTheNodeExits: a call whose turn would begin when other nodes may already
// have its entity waits. It is then refused, so that its caller sends it to the new home.
func TestNoTurnBeginsWhileTheNodeExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStand(t)
		st.driver.Lease.Renew(time.Time{})
		st.driver.Lease.End(runner.Closing)
		answered := make(chan answer, 1)
		go func() {
			c := &InCall{Call: shardhost.Call{ID: 1, Method: []byte("Add")}}
			answered <- c.execute(st.shard, st.take("x"))
		}()
		time.Sleep(time.Minute)
		require.Empty(t, answered)
		st.driver.Lease.End(runner.Ending)
		require.Equal(t, wire.CodeStopped, (<-answered).code)
		require.Zero(t, st.ran)
	})
}

// TestCutTurnsAreSentAgain: a leaving node ends the context of a turn that still waits for the
// lease or for its log. The call has not run and has time left, so its caller sends it again.
func TestCutTurnsAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStand(t)
		answered := make(chan answer, 1)
		go func() {
			c := &InCall{Call: shardhost.Call{ID: 1, Method: []byte("Add")}}
			answered <- c.execute(st.shard, st.take("x"))
		}()
		d := &durableTurn{}
		d.turn.parent, d.turn.entity = d, st.take("y")
		require.NoError(t, d.turn.Err())
		require.Equal(t, wire.CodeExpired, d.notOpen(context.Canceled).code, "its caller has given up")
		synctest.Wait()
		st.driver.Turning.End()
		require.Equal(t, wire.CodeDropped, (<-answered).code)
		require.Equal(t, wire.CodeDropped, d.notOpen(d.turn.Err()).code)
		require.Zero(t, st.ran)
	})
}

// TestNoAnswerWithoutALease: a call that has run is answered when the node may answer again. If the
// node never may, the call gets no answer, because another node may have run the entity since.
func TestNoAnswerWithoutALease(t *testing.T) {
	ask := func(st *stand) (*calls.Call, *InCall) {
		waits, id := st.driver.Pending.Open(0, 0)
		c := &InCall{Call: shardhost.Call{ID: id}}
		c.Sender = st.driver.Local
		return waits, c
	}
	t.Run("to a caller of this process", func(t *testing.T) {
		st := newStand(t)
		waits, c := ask(st)
		id := c.ID
		c.answer(st.driver, answer{}, nil)
		require.True(t, st.driver.Pending.Waits(id), "answered without a lease")
		st.driver.Lease.Renew(time.Time{})
		st.answered(waits)
		require.Equal(t, wire.CodeOK, waits.Result().Code)
	})
	t.Run("to a caller of this process, which leaves", func(t *testing.T) {
		for _, phase := range []runner.Phase{runner.Closing, runner.Ending} {
			st := newStand(t)
			waits, c := ask(st)
			c.answer(st.driver, answer{}, nil)
			st.driver.Lease.End(phase)
			st.driver.Lease.Renew(time.Time{})
			st.answered(waits)
			require.Equal(t, wire.CodeOK, waits.Result().Code)
		}
	})
	t.Run("to a caller of this process, which ends", func(t *testing.T) {
		st := newStand(t)
		_, c := ask(st)
		id := c.ID
		c.answer(st.driver, answer{}, nil)
		st.driver.Lease.End(runner.Over)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.True(t, st.driver.Group.Wait(ctx))
		require.True(t, st.driver.Pending.Waits(id), "answered without a lease")
	})
	t.Run("to another process", func(t *testing.T) {
		st := newStand(t)
		peer := transport.Peer{Address: transport.Address{Name: "b", Incarnation: 1}}
		p := st.driver.Sessions.Session(peer, 0)
		c := &InCall{Call: shardhost.Call{ID: 7}, from: p}
		c.Sender = peer
		c.answer(st.driver, answer{}, nil)
		require.Empty(t, st.sent.frames, "answered without a lease")
		st.driver.Lease.Renew(time.Time{})
		p.Flush()
		require.Len(t, st.sent.frames, 1)
	})
}

// TestNoPassivationWithoutALease: no entity is passivated without a lease, because another node may
// have the entity and its state.
func TestNoPassivationWithoutALease(t *testing.T) {
	st := newStand(t)
	st.driver.Lease.Renew(time.Time{})
	require.Equal(t, wire.CodeOK, (&InCall{Call: shardhost.Call{ID: 1, Method: []byte("Add")}}).execute(st.shard, st.take("x")).code)
	e := st.shard.Core.Look(region.Hash("x"), "x")
	st.shard.FinishTurn(e)
	idle := st.driver.Clock.Load() + 100

	st.driver.Lease.Renew(st.driver.Lease.Base()) // over
	p := NewPassivator(st.host)
	require.Zero(t, p.passivateBefore(st.shard, idle, nil))
	require.NotNil(t, e.Value, "passivated without a lease")
	st.driver.Lease.Renew(time.Time{})
	require.Equal(t, 1, p.passivateBefore(st.shard, idle, nil))
	require.Nil(t, e.Value)
}

// TestGoodbyeEndsNoCall: a peer that said goodbye on a lane has answered or forwarded all calls
// that it received there. So a call that it did not answer runs elsewhere, and is not lost when the
// peer is removed.
func TestGoodbyeEndsNoCall(t *testing.T) {
	for _, bye := range []bool{true, false} {
		st := newStand(t)
		peer := transport.Peer{Address: transport.Address{Name: "b", Incarnation: 1}}
		c, id := st.driver.Pending.Open(0, 0)
		p := st.driver.Sessions.Session(peer, 0)
		st.driver.Pending.Sent(id, p, 1)
		p.Close(bye)
		st.driver.Data.PeerGone(peer.Address, calls.AllLanes, false)
		require.Equal(t, bye, st.driver.Pending.Waits(id))
		if !bye {
			st.answered(c)
			require.Equal(t, calls.Lost, c.Result().Code)
			require.Equal(t, peer.Address, c.Result().Lost)
		}
	}
}

// Drain and Flush return at once.
func (r *recorder) Drain(context.Context) error                    { return nil }
func (r *recorder) Flush(context.Context, transport.Channel) error { return nil }

// TestNoGoodbyeBeforeTheAnswers: a goodbye tells a peer that all its calls were answered. So a
// process sends no goodbye if its time ends while an answer waits for the log.
func TestNoGoodbyeBeforeTheAnswers(t *testing.T) {
	st := newStand(t)
	st.driver.Lease.End(runner.Ending)
	p := st.driver.Sessions.Session(transport.Peer{Address: transport.Address{Name: "b", Incarnation: 1}}, 0)
	p.Post(&wire.Envelope{Type: wire.TypeAnswer, ID: 1})
	st.sent.frames = nil
	over, cancel := context.WithCancel(t.Context())
	cancel()
	st.driver.answering.Add(1)
	for range 20 { // it may also end before it looks for answers
		Drain{st.driver}.Run(over, time.Now())
	}
	require.Empty(t, st.sent.frames)
	st.driver.answering.Add(-1)
	Drain{st.driver}.Run(t.Context(), time.Now())
	require.NotEmpty(t, st.sent.frames)
}

// answered waits until the call is answered.
func (st *stand) answered(c *calls.Call) {
	calls.Await(context.Background(), &st.driver.Pending, c, 0, &calls.Deadline{})
}
