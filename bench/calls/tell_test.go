package calls

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
)

// tellWindow bounds the envelopes under way, so that the figure is of what
// arrived, and the server never meets a slow consumer.
const tellWindow = 16 << 10

// flushID marks an envelope that is acknowledged at once.
const flushID = 0

// A teller sends envelopes one way. The receiver acknowledges how many arrived,
// once each quarter of the window. It is safe for concurrent use.
type teller struct {
	out           *writer
	sent, arrived atomic.Uint64
	mu            sync.Mutex
	progress      sync.Cond // signalled when arrived grows
}

func newTeller(tb testing.TB, sender, receiver *nats.Conn) *teller {
	t := new(teller)
	t.progress.L = &t.mu
	acks := sender.NewInbox()
	t.out = newWriter(
		func(batch []byte) error { return sender.PublishRequest(subject, acks, batch) },
		func() bool { return true },
	)
	t.out.pump(tb)
	receive(tb, sender, acks, func(m *nats.Msg) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.arrived.Store(binary.LittleEndian.Uint64(m.Data))
		t.progress.Broadcast()
		return nil
	})
	var arrived, acked uint64
	receive(tb, receiver, subject, func(m *nats.Msg) error {
		flush := false
		err := eachEnvelope(m.Data, func(id uint64, _ []byte) error {
			arrived++
			flush = flush || id == flushID
			return nil
		})
		if err != nil || !flush && arrived-acked < tellWindow/4 {
			return err
		}
		acked = arrived
		return receiver.Publish(m.Reply, binary.LittleEndian.AppendUint64(nil, arrived))
	})
	return t
}

// tell sends one envelope, when the window has room for it.
func (t *teller) tell(payload []byte) error {
	id := t.sent.Add(1)
	if id > t.arrived.Load()+tellWindow {
		t.await(id - tellWindow)
	}
	return t.out.write(id, payload)
}

// flush waits until everything told before has arrived.
func (t *teller) flush() error {
	if err := t.out.write(flushID, nil); err != nil {
		return err
	}
	t.await(t.sent.Add(1))
	return nil
}

// await waits until count envelopes have arrived.
func (t *teller) await(count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.arrived.Load() < count {
		t.progress.Wait()
	}
}
