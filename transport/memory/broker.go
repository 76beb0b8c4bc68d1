package memory

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// Options of a Broker; the zero value works.
type Options struct {
	// Name is the prefix of the identity of the broker's instances. Default "memory".
	Name string
	// Seed determines the messages lost by Lose, the delay of each message by Delay, and the member
	// chosen by Anycast. Default 0.
	Seed uint64
	// MaxPayload is the largest payload in bytes. Default 1 MiB.
	MaxPayload int
	// QueueLength bounds the messages waiting in one channel before Receive, and those that Hold
	// keeps back on one path. Default 65,536; messages beyond it are dropped and counted.
	QueueLength int
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "memory"
	}
	if o.MaxPayload <= 0 {
		o.MaxPayload = 1 << 20
	}
	if o.QueueLength <= 0 {
		o.QueueLength = 64 << 10
	}
	return o
}

// A Broker routes messages between the links of its transports. It is safe for
// concurrent use.
type Broker struct {
	options    Options
	maxPayload atomic.Int64

	mu       sync.Mutex // guards all links and channels too
	running  bool
	started  chan struct{} // closed while running
	instance int
	random   *rand.Rand
	links    []*link // in the order of their Open
	byPeer   map[transport.Peer]*link
	away     map[string]bool // names disconnected by Disconnect
	faults   map[Path]*fault
	lost     uint64
	late     late // messages that Delay keeps
}

// NewBroker returns a running broker.
func NewBroker(o Options) *Broker {
	b := &Broker{
		options: o.withDefaults(),
		started: make(chan struct{}),
		random:  rand.New(rand.NewPCG(o.Seed, 0)),
		byPeer:  map[transport.Peer]*link{},
		away:    map[string]bool{},
		faults:  map[Path]*fault{},
	}
	b.maxPayload.Store(int64(b.options.MaxPayload))
	b.Start()
	return b
}

// SetMaxPayload changes Options.MaxPayload, as a server can do when it reloads its configuration.
// Messages sent before are still delivered.
func (b *Broker) SetMaxPayload(bytes int) { b.maxPayload.Store(int64(bytes)) }

// Transport returns a transport over this broker.
func (b *Broker) Transport() *Transport { return &Transport{broker: b} }

// Stop stops the broker: all connections break, and held messages are lost. Links keep messages
// that they have already received. Stop, Start, Disconnect and Reconnect call the links' OnState
// functions before they return. If another goroutine is already calling such a function, that
// goroutine makes the call, perhaps later.
func (b *Broker) Stop() {
	b.mu.Lock()
	if !b.running {
		b.mu.Unlock()
		return
	}
	b.running = false
	b.started = make(chan struct{})
	for _, f := range b.faults {
		f.held = nil
	}
	b.late.drop()
	b.updateAndUnlock()
}

// Start starts a new instance of the broker; all links reconnect.
func (b *Broker) Start() {
	b.mu.Lock()
	if b.running {
		b.mu.Unlock()
		return
	}
	b.running = true
	b.instance++
	close(b.started)
	b.updateAndUnlock()
}

// Restart calls Stop and then Start.
func (b *Broker) Restart() {
	b.Stop()
	b.Start()
}

// Disconnect breaks the connections of all links of the named node until Reconnect. The broker
// notices: messages to that node come back as Unreachable.
func (b *Broker) Disconnect(name string) { b.setAway(name, true) }

// Reconnect ends a Disconnect.
func (b *Broker) Reconnect(name string) { b.setAway(name, false) }

func (b *Broker) setAway(name string, away bool) {
	b.mu.Lock()
	if away {
		b.away[name] = true
	} else {
		delete(b.away, name)
	}
	b.updateAndUnlock()
}

// Lost returns the number of messages lost because of faults that the test has set.
func (b *Broker) Lost() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

func (b *Broker) server() string { return fmt.Sprintf("%s-%d", b.options.Name, b.instance) }

// updateAndUnlock updates all channels, releases b.mu, and calls OnState for changes.
func (b *Broker) updateAndUnlock() {
	var changed []*channel
	for _, l := range b.links {
		changed = append(changed, b.updateLocked(l)...)
	}
	b.mu.Unlock()
	for _, c := range changed {
		c.tell()
	}
}

func (b *Broker) updateLocked(l *link) []*channel {
	want := transport.State{Connected: b.running && !b.away[l.self.Name]}
	if want.Connected {
		want.Server, want.Alone = b.server(), true
	}
	var changed []*channel
	for _, c := range l.channels {
		if c.state != want {
			c.state = want
			c.untold = append(c.untold, want)
			changed = append(changed, c)
		}
	}
	return changed
}

// A delivery is a message on its way. If nobody listens, its sender's channel gets an Unreachable.
type delivery struct {
	from    *channel
	to      *link          // chosen by Broadcast or Anycast, else nil
	peer    transport.Peer // named by Send
	kind    transport.Kind
	token   uint64
	payload []byte // the broker's own copy
}

func (e *delivery) target() string {
	if e.to != nil {
		return e.to.self.Name
	}
	return e.peer.Name
}

func (e *delivery) paths() [4]Path {
	from, to := e.from.link.self.Name, e.target()
	return [...]Path{{from, to}, {from, Any}, {Any, to}, {Any, Any}}
}

func (e *delivery) route() route { return route{e.from, e.target()} }

func (b *Broker) sendLocked(e delivery) {
	if b.faultsTakeLocked(e) {
		return
	}
	if d := b.delayLocked(e); d > 0 || b.late.holds(e) {
		b.late.add(e, d, b.deliverLate)
		return
	}
	b.deliverLocked(e)
}

func (b *Broker) deliverLocked(e delivery) {
	to := e.to
	switch {
	case to == nil:
		to = b.byPeer[e.peer]
	case e.kind == transport.Anycast && !to.takesAnycast(): // the member has stopped serving while a fault held the message
		to = b.chooseLocked()
	}
	if c := to.listening(e.from.id); c != nil {
		c.push(transport.Message{Kind: e.kind, From: e.from.link.sender(), Payload: e.payload})
		return
	}
	switch e.kind {
	case transport.Direct:
		b.refuseLocked(e.from, e.peer.Address, e.token)
	case transport.Anycast:
		b.refuseLocked(e.from, transport.Address{}, e.token)
	}
}

func (b *Broker) refuseLocked(c *channel, from transport.Address, token uint64) {
	if c.subscribed() {
		c.push(transport.Message{Kind: transport.Unreachable, From: from, Token: token, Server: b.server()})
	}
}

func (b *Broker) broadcastLocked(from *channel, payload []byte) {
	for _, l := range b.links {
		if !l.client {
			b.sendLocked(delivery{from: from, to: l, kind: transport.Broadcast, payload: bytes.Clone(payload)})
		}
	}
}

func (b *Broker) anycastLocked(from *channel, token uint64, payload []byte) {
	to := b.chooseLocked()
	if to == nil {
		b.refuseLocked(from, transport.Address{}, token)
		return
	}
	b.sendLocked(delivery{from: from, to: to, kind: transport.Anycast, token: token, payload: bytes.Clone(payload)})
}

func (b *Broker) chooseLocked() *link {
	var able []*link
	for _, l := range b.links {
		if l.takesAnycast() {
			able = append(able, l)
		}
	}
	if len(able) == 0 {
		return nil
	}
	return able[b.random.IntN(len(able))]
}

func (l *link) takesAnycast() bool { return l.serves && l.listening(transport.Control) != nil }

// Any stands for every node in a Path.
const Any = "*"

// A Path is one direction between two nodes, which From and To name. A fault on a path applies to
// all messages on the path. Any matches every node, so a path with Any includes messages of a node
// to itself. Faults never apply to an Unreachable, because the broker itself sends it.
type Path struct{ From, To string }

// A fault has one path's faults. The zero value does nothing.
type fault struct {
	cut  bool
	next int
	rate float64
	hold bool
	held []delivery
	// least and most are the bounds of Delay.
	least, most time.Duration
}

func (b *Broker) fault(p Path, change func(*fault)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.faults[p]
	if f == nil {
		f = &fault{}
		b.faults[p] = f
	}
	change(f)
}

// Cut loses all messages on p until Mend. The sender does not notice.
func (b *Broker) Cut(p Path) { b.fault(p, func(f *fault) { f.cut = true }) }

// Drop loses the next n messages on p.
func (b *Broker) Drop(p Path, n int) { b.fault(p, func(f *fault) { f.next = n }) }

// Lose loses each message on p with the given probability, 0 to 1, until Mend. Options.Seed
// determines which messages are lost.
func (b *Broker) Lose(p Path, probability float64) {
	b.fault(p, func(f *fault) { f.rate = probability })
}

// Hold keeps back all messages on p until Release or Mend.
func (b *Broker) Hold(p Path) { b.fault(p, func(f *fault) { f.hold = true }) }

// Delay delays each message on p by a random duration from least to most, until Mend is called. If
// several paths with a delay match a message, the most specific of them counts. Messages from one
// node to another keep their order on each channel. If the path is cut after a message was delayed,
// the message still arrives when it is due. Stop loses delayed messages.
func (b *Broker) Delay(p Path, least, most time.Duration) {
	b.fault(p, func(f *fault) { f.least, f.most = max(least, 0), max(least, most, 0) })
}

func (b *Broker) delayLocked(e delivery) time.Duration {
	if len(b.faults) == 0 {
		return 0
	}
	for _, p := range e.paths() {
		if f := b.faults[p]; f != nil && f.most > 0 {
			return f.least + time.Duration(b.random.Int64N(int64(f.most-f.least)+1))
		}
	}
	return 0
}

func (b *Broker) deliverLate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late.deliver(time.Now(), b.deliverLocked)
}

// Release ends Hold and delivers the held messages in order. It returns their number.
func (b *Broker) Release(p Path) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.releaseLocked(b.faults[p])
}

// Mend ends all faults of p, and delivers held messages.
func (b *Broker) Mend(p Path) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releaseLocked(b.faults[p])
	delete(b.faults, p)
}

// Held returns the number of messages that Hold keeps back on p now.
func (b *Broker) Held(p Path) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.faults[p]; f != nil {
		return len(f.held)
	}
	return 0
}

func (b *Broker) releaseLocked(f *fault) int {
	if f == nil {
		return 0
	}
	held := f.held
	f.hold, f.held = false, nil
	for _, e := range held {
		b.deliverLocked(e)
	}
	return len(held)
}

// faultsTakeLocked reports whether a fault takes the message. It begins with the most specific
// path, so only one path's Drop counts the message.
func (b *Broker) faultsTakeLocked(e delivery) bool {
	if len(b.faults) == 0 {
		return false
	}
	for _, p := range e.paths() {
		f := b.faults[p]
		if f == nil {
			continue
		}
		switch {
		case f.cut:
		case f.next > 0:
			f.next--
		case f.rate > 0 && b.random.Float64() < f.rate:
		case f.hold && len(f.held) < b.options.QueueLength:
			f.held = append(f.held, e)
			return true
		case f.hold:
		default:
			continue
		}
		b.lost++
		return true
	}
	return false
}
