package limit

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// TellWindow bounds the envelopes under way, so that the figure counts those that
// arrived, and the server never meets a slow consumer.
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
	t = new(Teller)
	t.progress.L = &t.mu
	acks := conn.NewInbox()
	t.out = newWriter(
		func(batch []byte) error { return conn.PublishRequest(subject, acks, batch) },
		func() bool { return true },
	)
	unsubscribe, err := receive(conn, acks, func(m *nats.Msg) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.arrived.Store(binary.LittleEndian.Uint64(m.Data))
		t.progress.Broadcast()
		return nil
	}, fail)
	if err != nil {
		return nil, nil, err
	}
	rest := t.out.pump(fail)
	return t, func() {
		rest()
		unsubscribe()
	}, nil
}

// Count counts the envelopes of one Teller on subject, until stop is called.
func Count(conn *nats.Conn, subject string, fail func(error)) (stop func(), err error) {
	var arrived, acked uint64
	return receive(conn, subject, func(m *nats.Msg) error {
		flush := false
		err := eachEnvelope(m.Data, func(id uint64, _ []byte) error {
			arrived++
			flush = flush || id == flushID
			return nil
		})
		if err != nil || !flush && arrived-acked < TellWindow/4 {
			return err
		}
		acked = arrived
		return conn.Publish(m.Reply, binary.LittleEndian.AppendUint64(nil, arrived))
	}, fail)
}

// Tell sends one envelope, when the window has room for it.
func (t *Teller) Tell(payload []byte) error {
	id := t.sent.Add(1)
	if id > t.arrived.Load()+TellWindow {
		t.await(id - TellWindow)
	}
	return t.out.write(id, payload)
}

// Counts returns how many envelopes were sent and have arrived.
func (t *Teller) Counts() (sent, arrived uint64) { return t.sent.Load(), t.arrived.Load() }

// Flush waits until everything told before has arrived.
func (t *Teller) Flush() error {
	if err := t.out.write(flushID, nil); err != nil {
		return err
	}
	t.await(t.sent.Add(1))
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
