package peers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A process is the Env of a Set in a test. Its link counts frames.
type process struct {
	transport.Link
	mu        sync.Mutex
	frames    int
	counts    map[Counter]int
	strangers []*Session
	over      []*stream.Oversize
	turned    []transport.Peer
	wanted    []*Session // guarded by mu
	fails     error      // the error of Send
}

func (p *process) Send(transport.Channel, transport.Peer, uint64, []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails != nil {
		return p.fails
	}
	p.frames++
	return nil
}

func (p *process) MaxPayload() int { return 1 << 20 }

func (p *process) sent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frames
}

// asked returns the sessions for which direct lanes were wanted.
func (p *process) asked() []*Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.wanted)
}

// env presents a process to a Set.
type env struct{ *process }

func (e env) Closed() bool { return false }
func (e env) Count(what Counter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[what]++
}

func (e env) OverQuota(p transport.Peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.turned = append(e.turned, p)
}

func (e env) Wanted(p *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted = append(e.wanted, p)
}
func (e env) Oversize(_ *Session, o *stream.Oversize) { e.over = append(e.over, o) }
func (e env) Stranger(p *Session)                     { e.strangers = append(e.strangers, p) }

// newSet returns a Set with two lanes, its process, and the table of calls that it uses.
func newSet() (*Set, *process, *calls.Table) {
	p, table := &process{counts: map[Counter]int{}}, &calls.Table{}
	table.Init(func() calls.Caller { return nobody{} })
	s := &Set{}
	s.Init(env{p}, Config{
		Self: transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1}}, Lanes: 2,
		Window: 1 << 20, MaxBuffered: 1 << 20, AnswerBytes: 4 << 20, Calls: &table.Coalescer, Direct: true,
		Link: func() transport.Link { return p }, MayAnswer: func() bool { return true },
	})
	return s, p, table
}

type nobody struct{}

func (nobody) Wake() {}

func member(name string) transport.Peer {
	return transport.Peer{Address: transport.Address{Name: name, Incarnation: 7}}
}

func tell() *wire.Envelope {
	return &wire.Envelope{Type: wire.TypeTell, Kind: []byte("Kind"), Shard: 4, Entity: []byte("x"), Method: []byte("M")}
}

// TestCallersThatWereWokenShareAFrame: envelopes appended while woken callers have not run yet wait
// for the last of these. A single call does not wait.
func TestCallersThatWereWokenShareAFrame(t *testing.T) {
	s, p, table := newSet()
	ctx, cancel := context.WithCancel(context.Background())
	var pumps sync.WaitGroup
	pumps.Go(func() { s.RunPump(ctx, 0) })
	defer func() {
		cancel()
		pumps.Wait()
	}()
	to := s.Session(member("b"), 0)
	add := func(by By) {
		to.Lock()
		_, err := to.AppendLocked(tell())
		require.NoError(t, err)
		to.PublishUnlock(by)
	}
	add(Alone)
	require.Equal(t, 1, p.sent(), "a lone call goes at once")

	var ids []uint64
	for range 2 {
		_, id := table.Open(0, 0)
		ids = append(ids, id)
	}
	for _, id := range ids {
		require.True(t, table.Complete(id, calls.Result{}))
	}
	add(Alone)
	table.Coalescer.Resumed()
	add(Alone)
	require.Equal(t, 1, p.sent(), "a caller that was woken has not run yet")
	table.Coalescer.Resumed()
	require.Eventually(t, func() bool { return p.sent() == 2 }, 10*time.Second, time.Millisecond, "both in one frame")
}

// TestBatchPublishesOnce: a batch publishes each of its sessions once.
func TestBatchPublishesOnce(t *testing.T) {
	s, p, _ := newSet()
	var b Batch
	one, other := s.Session(member("b"), 0), s.Session(member("c"), 1)
	for range 3 {
		require.True(t, one.Answer(tell(), &b))
		require.True(t, other.Answer(tell(), &b))
	}
	require.Zero(t, p.sent())
	b.Publish()
	require.Equal(t, 2, p.sent())
	b.Publish()
	require.Equal(t, 2, p.sent(), "the batch is empty")
}

// TestReplaceOnce: if several goroutines find that a peer has dropped its side of a session, only
// one replaces the session, and returns what the peer may have received.
func TestReplaceOnce(t *testing.T) {
	s, _, _ := newSet()
	old := s.Session(member("b"), 0)
	_, err := old.Append(tell())
	require.NoError(t, err)
	next, left := s.Replace(old)
	require.NotSame(t, old, next)
	require.Len(t, left.Unacknowledged, 1)
	again, none := s.Replace(old)
	require.Same(t, next, again)
	require.Nil(t, none)
	require.True(t, old.HasDeparted())
	require.Same(t, next, s.Session(member("b"), 0))
}

// TestGoodbyeOfAClient: a client is forgotten when it has said goodbye on all lanes that it used,
// and known again if it comes back.
func TestGoodbyeOfAClient(t *testing.T) {
	s, _, _ := newSet()
	client := member("c")
	client.Client = true
	for lane := range 2 {
		_, err := s.Session(client, lane).Append(tell())
		require.NoError(t, err)
	}
	s.ClientLeft(s.Session(client, 0))
	require.NotNil(t, s.Known(client.Address, 1), "it has not said goodbye there")
	s.ClientLeft(s.Session(client, 1))
	require.Nil(t, s.Known(client.Address, 1))
	require.False(t, s.Session(client, 0).HasDeparted())
}

// TestIgnoredFrameOfAClient: an ignored frame is counted. It ends the client's sessions only if it
// is the client's goodbye.
func TestIgnoredFrameOfAClient(t *testing.T) {
	s, p, _ := newSet()
	client := outsider("web", 1)
	session := s.Session(client, 0)
	(*sessionEnv)(session).Ignored(false)
	require.Same(t, session, s.Known(client.Address, 0))
	(*sessionEnv)(session).Ignored(true)
	require.Nil(t, s.Known(client.Address, 0))
	require.Equal(t, 2, p.counts[FrameIgnored])
}

// TestEnvelopeForTheDepartedIsCounted: an envelope posted to a departed peer is dropped and
// counted, because its sender gets no error.
func TestEnvelopeForTheDepartedIsCounted(t *testing.T) {
	s, p, _ := newSet()
	to := s.Session(member("b"), 0)
	to.Post(tell())
	require.Equal(t, 1, p.sent())
	require.Zero(t, p.counts[NoPeer])
	_, ok := s.Remove(member("b").Address, -1, false)
	require.True(t, ok)
	require.True(t, to.HasDeparted())
	for n := range 2 {
		to.Post(tell())
		require.Equal(t, 1+n, p.counts[NoPeer])
	}
	require.Equal(t, 1, p.sent())
}

// TestDepartedPeers: processes that were removed or said goodbye on a lane are listed as departed.
// A process comes back only on lanes where its departure was reported too early.
func TestDepartedPeers(t *testing.T) {
	s, _, _ := newSet()
	b, c := member("b").Address, member("c").Address
	s.Session(member("b"), 0)
	s.Session(member("c"), 0)
	_, ok := s.Remove(b, 1, true)
	require.True(t, ok)
	require.False(t, s.HasDeparted(b, 0))
	require.True(t, s.HasDeparted(b, 1))
	require.Empty(t, s.Departed(0))
	require.Equal(t, []transport.Address{b}, s.Departed(1))

	s.MarkLeft(b)
	require.True(t, s.HasLeft(b))
	s.MarkBack(b)
	require.False(t, s.HasLeft(b))
	require.False(t, s.HasDeparted(b, 1), "it begins anew")

	_, ok = s.Remove(c, -1, false)
	require.True(t, ok)
	require.True(t, s.WasRemoved(c))
	require.Nil(t, s.Session(member("c"), 0))
	s.Forgive(c)
	require.NotNil(t, s.Session(member("c"), 0))
}

// TestDepartedPeersAreBounded: a process lists only as many of the latest departed peers as may
// travel with a shard, however many peers have left gracefully or were removed.
func TestDepartedPeersAreBounded(t *testing.T) {
	s, _, _ := newSet()
	var left []transport.Address
	for i := range 3 * shardhost.MaxDeparted {
		a := member(fmt.Sprint("m", i)).Address
		_, ok := s.Remove(a, []int{-1, 1}[i%2], i%2 > 0)
		require.True(t, ok)
		left = append(left, a)
		require.Equal(t, left[max(0, len(left)-shardhost.MaxDeparted):], s.Departed(1))
	}
}
