package limit

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// TellWindow bounds the envelopes under way, so that the figure counts arrived ones, and the server
// never meets a slow consumer.
const TellWindow = 16 << 10

// flushID marks an envelope that is acknowledged at once.
const flushID = 0

// A Teller sends envelopes one way. The receiver acknowledges how many arrived,
// once each quarter of the window. It is safe for concurrent use.
type Teller struct {
	out           *writer
	sent, arrived atomic.Uint64
	mu            sync.Mutex
	progress      sync.Cond // signalled when arrived grows
}

// NewTeller sends to the counting process on subject, until stop is called.
func NewTeller(conn *nats.Conn, subject string, fail func(error)) (t *Teller, stop func(), err error) {
	acks := conn.NewInbox()
	t = newTeller(func(batch []byte) error { return conn.PublishRequest(subject, acks, batch) })
	unsubscribe, err := receive(conn, acks, func(m *nats.Msg) error { return t.acknowledged(m.Data) }, fail)
	if err != nil {
		return nil, nil, err
	}
	rest := t.out.pump(fail)
	return t, func() {
		rest()
		unsubscribe()
	}, nil
}

func newTeller(publish func(batch []byte) error) *Teller {
	t := new(Teller)
	t.progress.L = &t.mu
	t.out = newWriter(publish, func() bool { return true })
	return t
}

// acknowledged takes the receiver's count.
func (t *Teller) acknowledged(count []byte) error {
	if len(count) != 8 {
		return fmt.Errorf("acknowledgement of %d bytes, want 8", len(count))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arrived.Store(binary.LittleEndian.Uint64(count))
	t.progress.Broadcast()
	return nil
}

// Count counts the envelopes of one Teller on subject, until stop is called.
func Count(conn *nats.Conn, subject string, fail func(error)) (stop func(), err error) {
	var c counter
	return receive(conn, subject, func(m *nats.Msg) error {
		due, err := c.count(m.Data)
		if err != nil || !due {
			return err
		}
		return conn.Publish(m.Reply, binary.LittleEndian.AppendUint64(nil, c.arrived))
	}, fail)
}

// A counter is the receiver's side of a Teller.
type counter struct{ arrived, acked uint64 }

// count counts a batch, and reports whether the sender is to be told.
func (c *counter) count(batch []byte) (due bool, err error) {
	err = eachEnvelope(batch, func(id uint64, _ []byte) error {
		c.arrived++
		due = due || id == flushID
		return nil
	})
	if due = due || c.arrived-c.acked >= TellWindow/4; due {
		c.acked = c.arrived
	}
	return due, err
}

// Tell sends one envelope, when the window has room for it.
func (t *Teller) Tell(payload []byte) error {
	id := t.sent.Add(1)
	if id > t.arrived.Load()+TellWindow {
		t.await(id - TellWindow)
	}
	_, err := t.out.write(id, payload)
	return err
}

// Counts returns how many envelopes were sent, and how many of them have arrived.
func (t *Teller) Counts() (sent, arrived uint64) { return t.sent.Load(), t.arrived.Load() }

// Flush waits until everything told before has arrived.
func (t *Teller) Flush() error {
	t.sent.Add(1)
	// It does not wait for t.sent arrivals: another caller may have counted an envelope before
	// writing it, and its acknowledgement may never come.
	place, err := t.out.write(flushID, nil)
	if err != nil {
		return err
	}
	t.await(place)
	return nil
}

// await waits until count envelopes have arrived.
func (t *Teller) await(count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.arrived.Load() < count {
		t.progress.Wait()
	}
}
