package limit

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// TellWindow bounds the envelopes that a Teller has sent and the receiver has not acknowledged. So
// the server never treats the receiver as a slow consumer, and the rate of tells equals the rate of
// arrivals.
const TellWindow = 16 << 10

// flushID marks an envelope that is acknowledged at once.
const flushID = 0

// A Teller sends envelopes one way. The receiver reports how many have arrived after each quarter
// of TellWindow. A Teller is safe for concurrent use.
type Teller struct {
	out           *writer
	sent, arrived atomic.Uint64
	mu            sync.Mutex
	progress      sync.Cond // signalled when arrived grows
}

// NewTeller returns a Teller that sends to the process that runs Count on subject. The Teller works
// until stop is called; fail gets its errors.
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

// Count receives the envelopes of one Teller on subject and acknowledges them, until stop is
// called.
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

type counter struct{ arrived, acked uint64 }

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

// Tell sends one envelope. It waits while TellWindow envelopes are unacknowledged.
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

// Flush waits until all envelopes that were sent before have arrived.
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

func (t *Teller) await(count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.arrived.Load() < count {
		t.progress.Wait()
	}
}
