package limit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/nats-io/nats.go"
)

// maxBatch is the size of a full batch in bytes. NATS gains nothing from larger messages.
const maxBatch = 64 << 10

// A writer collects envelopes into batches. A goroutine that appends an envelope also publishes the
// batch, or wakes the pump if there is one. It only appends if another batch is being published at
// that time. A writer is safe for concurrent use.
type writer struct {
	publish func(batch []byte) error
	loaded  func() bool   // whether a yield is likely to gather more
	wake    chan struct{} // to the pump; nil without one

	mu      sync.Mutex
	room    sync.Cond // signalled when gathered was taken
	writing bool
	// gathered is the next batch, spare the previous one's memory.
	gathered, spare []byte
	written         uint64 // envelopes, with those gathered
}

func newWriter(publish func([]byte) error, loaded func() bool) *writer {
	w := &writer{publish: publish, loaded: loaded}
	w.room.L = &w.mu
	return w
}

// pump starts a goroutine that publishes the batches until stop is called. Then write does not wait
// for publish, so the envelopes of a single caller form batches too. fail gets the errors of
// publish.
func (w *writer) pump(fail func(error)) (stop func()) {
	w.wake = make(chan struct{}, 1)
	var pump sync.WaitGroup
	pump.Go(func() {
		for range w.wake {
			w.mu.Lock()
			err := w.drainLocked()
			w.mu.Unlock()
			if err != nil {
				fail(err)
			}
		}
	})
	return func() {
		close(w.wake)
		pump.Wait()
	}
}

// write appends an envelope. place is its number, from 1, in order of arrival.
func (w *writer) write(id uint64, payload []byte) (place uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.writing && len(w.gathered) >= maxBatch {
		w.room.Wait()
	}
	w.gathered = appendEnvelope(w.gathered, id, payload)
	w.written++
	place = w.written
	if w.writing {
		return place, nil
	}
	w.writing = true
	if w.wake != nil {
		w.wake <- struct{}{} // never waits: one wake at a time is under way
		return place, nil
	}
	return place, w.drainLocked()
}

// drainLocked publishes until gathered is empty or publish fails. It releases w.mu meanwhile.
func (w *writer) drainLocked() error {
	defer func() { w.writing = false }()
	for len(w.gathered) > 0 {
		if w.loaded() && len(w.gathered) < maxBatch {
			w.mu.Unlock()
			runtime.Gosched() // others add theirs
			w.mu.Lock()
		}
		batch := w.gathered
		w.gathered = w.spare[:0]
		w.room.Broadcast()
		w.mu.Unlock()
		err := w.publish(batch)
		w.mu.Lock()
		w.spare = batch
		if err != nil {
			return err
		}
	}
	return nil
}

// An envelope is an id (8 bytes), a length (4 bytes) and that many bytes.
const envelopeHeaderBytes = 12

func appendEnvelope(b []byte, id uint64, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, id)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

var errEnvelope = errors.New("read batch: an envelope is truncated")

func nextEnvelope(batch []byte) (id uint64, payload, rest []byte, err error) {
	if len(batch) < envelopeHeaderBytes {
		return 0, nil, nil, errEnvelope
	}
	id = binary.LittleEndian.Uint64(batch)
	n := int(binary.LittleEndian.Uint32(batch[8:]))
	rest = batch[envelopeHeaderBytes:]
	if n > len(rest) {
		return 0, nil, nil, errEnvelope
	}
	return id, rest[:n], rest[n:], nil
}

// eachEnvelope calls f for each envelope of a batch. It returns f's first error, or errEnvelope.
func eachEnvelope(batch []byte, f func(id uint64, payload []byte) error) error {
	for len(batch) > 0 {
		id, payload, rest, err := nextEnvelope(batch)
		if err != nil {
			return err
		}
		if err := f(id, payload); err != nil {
			return err
		}
		batch = rest
	}
	return nil
}

// receive handles a subject's messages in order until stop is called. It returns when the server
// has registered the subscription. fail gets errors of handle.
func receive(conn *nats.Conn, subject string, handle func(*nats.Msg) error, fail func(error)) (stop func(), err error) {
	messages := make(chan *nats.Msg, 64<<10)
	sub, err := conn.ChanSubscribe(subject, messages)
	if err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	var reader sync.WaitGroup
	quit := make(chan struct{})
	reader.Go(func() {
		for {
			select {
			case m := <-messages:
				if err := handle(m); err != nil {
					fail(fmt.Errorf("%s: %w", subject, err))
				}
			case <-quit:
				return
			}
		}
	})
	return func() {
		_ = sub.Unsubscribe()
		close(quit)
		reader.Wait()
	}, nil
}
