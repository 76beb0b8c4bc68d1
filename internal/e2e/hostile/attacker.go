package hostile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// An Attacker sends forged and malformed messages with the rights of one client. Its methods must
// not be called concurrently.
type Attacker struct {
	nc      *nats.Conn
	cluster string
	name    string
	members []transport.Address
	random  *rand.Rand
	sent    int
	denied  atomic.Int64

	mu       sync.Mutex
	sessions map[link]uint64 // session numbers, given by members to invented processes
	seq      map[link]uint64 // number of the last envelope sent
	homes    map[uint32]home // by shard, as named by members that refuse calls

	gateway *nats.Conn // of a caller of gateways; nil means there is none
	kinds   uint64     // the number of kinds of messages in a flood
	kept    []captured // sent messages, to be sent again
}

type home struct {
	member transport.Address
	epoch  uint64
}

type captured struct {
	subject string
	data    []byte
}

// A link is lane 0 between an invented process and a member.
type link struct {
	own    uint64 // incarnation
	member transport.Address
}

// invented is the number of invented processes with sessions.
const invented = 64

// NewAttacker connects as the client called name. members are all members of the cluster.
func NewAttacker(url, cluster, name string, members []transport.Address) (*Attacker, error) {
	a := &Attacker{
		cluster: cluster, name: name, members: members, random: rand.New(rand.NewPCG(1, 18)),
		sessions: map[link]uint64{}, seq: map[link]uint64{}, homes: map[uint32]home{},
	}
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { a.denied.Add(1) }))
	if err != nil {
		return nil, err
	}
	a.nc = nc
	if _, err := nc.Subscribe(fmt.Sprintf("sh.%s.r.c.%s.>", cluster, name), a.hear); err != nil {
		nc.Close()
		return nil, err
	}
	return a, nil
}

// AsCaller also connects as a caller of gateways.
func (a *Attacker) AsCaller(url string) (err error) {
	a.gateway, err = nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { a.denied.Add(1) }))
	return err
}

func (a *Attacker) Close() {
	a.nc.Close()
	if a.gateway != nil {
		a.gateway.Close()
	}
}

// Sent returns how many messages the attacker has sent, and how many of them the NATS server has
// denied.
func (a *Attacker) Sent() (sent int, denied int64) { return a.sent, a.denied.Load() }

// hear reads the session number, the handled sequence number and shards' homes from a member's frame.
func (a *Attacker) hear(m *nats.Msg) {
	words := strings.Split(m.Subject, ".")
	if len(words) < 8 || words[7] != "f" || words[6] == "ctl" {
		return
	}
	own, err := strconv.ParseUint(words[5], 16, 64)
	var r wire.FrameReader
	h, rest, headerErr := r.Header(m.Data)
	if err != nil || headerErr != nil {
		return
	}
	h.From.Name = strings.Clone(h.From.Name)
	a.mu.Lock()
	defer a.mu.Unlock()
	l := link{own, h.From.Address}
	if a.sessions[l] != h.Session {
		a.sessions[l], a.seq[l] = h.Session, 0
	}
	if h.Handled > a.seq[l] || h.Flags&wire.FlagNack != 0 { // the member has accepted a mutated frame, or misses one
		a.seq[l] = h.Handled
	}
	for {
		var e wire.Envelope
		var ok bool
		if rest, ok, err = wire.NextEnvelope(rest, &e); !ok || err != nil {
			return
		}
		if e.Type == wire.TypeRefusal && e.Code == wire.CodeMoved && e.Epoch > 0 {
			at := home{e.Node.Address, e.Epoch}
			at.member.Name = strings.Clone(at.member.Name)
			a.homes[e.Shard] = at
		}
	}
}

// next returns the sequence number of self's next envelope to m.
func (a *Attacker) next(self transport.Peer, m transport.Address) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seq[link{self.Incarnation, m}] + 1
}

func (a *Attacker) homeOf(shard uint32) (h home, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, ok = a.homes[shard]
	return h, ok
}

// Self returns the i-th invented process.
func (a *Attacker) Self(i uint64) transport.Peer {
	return transport.Peer{Address: transport.Address{Name: a.name, Incarnation: identity.Mark(identity.Client, i)}, Client: true}
}

// to returns the subject on which self sends to member m. channel is ctl, any (for any member) or a
// lane's number.
func (a *Attacker) to(self transport.Peer, m transport.Address, channel string) string {
	own := fmt.Sprintf("sh.%s.c.%s.%016x.", a.cluster, a.name, self.Incarnation)
	if channel == "any" {
		return own + channel
	}
	return own + fmt.Sprintf("%s.%016x.%s", m.Name, m.Incarnation, channel)
}

func (a *Attacker) anyMember() transport.Address { return a.members[a.random.IntN(len(a.members))] }

func (a *Attacker) publish(subject string, data []byte) error {
	a.sent++
	if own := (captured{subject, data}); len(data) > 4<<10 {
		// Flood does not count bytes.
	} else if len(a.kept) < 256 {
		a.kept = append(a.kept, own)
	} else {
		a.kept[a.random.IntN(len(a.kept))] = own
	}
	return a.nc.Publish(subject, data)
}

// Settle waits, at most a minute, until the server has received all messages.
func (a *Attacker) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return a.nc.FlushWithContext(ctx)
}

// OpenSessions opens a session of each invented process with each member, as clients do before they
// call.
func (a *Attacker) OpenSessions(ctx context.Context) error {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		missing := 0
		for i := range uint64(invented) {
			for _, m := range a.members {
				self := a.Self(i)
				if a.session(self, m) != 0 {
					continue
				}
				missing++
				h := wire.FrameHeader{Version: wire.FrameVersion, From: self, Seq: 1, Window: 1 << 20, Hello: 1}
				if err := a.publish(a.to(self, m, "0"), wire.AppendFrameHeader(nil, &h)); err != nil {
					return err
				}
			}
		}
		if missing == 0 {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("open sessions: members have not answered %d of them: %w", missing, ctx.Err())
		}
	}
}

func (a *Attacker) session(self transport.Peer, m transport.Address) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[link{self.Incarnation, m}]
}

// Frame encodes a frame from self with envelopes that member m accepts as new.
func (a *Attacker) Frame(self transport.Peer, m transport.Address, envelopes ...*wire.Envelope) []byte {
	l := link{self.Incarnation, m}
	a.mu.Lock()
	session, seq := a.sessions[l], a.seq[l]
	a.seq[l] = seq + uint64(len(envelopes))
	a.mu.Unlock()
	h := wire.FrameHeader{
		Version: wire.FrameVersion, From: self, Seq: seq + 1, Count: uint32(len(envelopes)),
		Window: 1 << 20, Session: session, Ack: 1 << 40, Handled: 1 << 40,
	}
	b := wire.AppendFrameHeader(nil, &h)
	for _, e := range envelopes {
		b = wire.AppendEnvelope(b, e)
	}
	return b
}

// SendFrame sends envelopes to member m, in the session of the i-th invented process.
func (a *Attacker) SendFrame(i uint64, m transport.Address, envelopes ...*wire.Envelope) error {
	self := a.Self(i % invented)
	return a.publish(a.to(self, m, "0"), a.Frame(self, m, envelopes...))
}

// batch is the number of messages after which a flood waits for the server. Otherwise the server
// might close the connection.
const batch = 256

// interval is the pause between two batches. It spreads a flood over each second.
const interval = 5 * time.Millisecond

// Flood sends n messages, of each kind in turn, at most rate a second. Rate 0 means as fast as the
// server accepts them.
func (a *Attacker) Flood(ctx context.Context, n, rate int) error {
	begin := time.Now()
	lies := liar{a}.all()
	a.kinds = uint64(len(lies))
	together := batch
	if rate > 0 {
		together = max(1, min(batch, int(time.Duration(rate)*interval/time.Second)))
	}
	for i := range n {
		if err := lies[i%len(lies)](uint64(i)); err != nil {
			return err
		}
		if i%together != together-1 {
			continue
		}
		if err := a.Settle(ctx); err != nil {
			return err
		}
		if rate <= 0 {
			continue
		}
		wait := time.NewTimer(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
	}
	return a.Settle(ctx)
}
