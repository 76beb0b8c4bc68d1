package calls

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

const subject = "bench.echo"

// benchmarkRemoteAsk calls over the server: by nats.Request, and by batches.
func benchmarkRemoteAsk(b *testing.B) {
	b.Run("natsRequest", func(b *testing.B) {
		answerer := connect(b)
		if _, err := answerer.Subscribe(subject, func(m *nats.Msg) {
			if err := m.Respond(m.Data); err != nil {
				b.Error(err)
			}
		}); err != nil {
			b.Fatal(err)
		}
		if err := answerer.Flush(); err != nil {
			b.Fatal(err)
		}
		caller := connect(b)
		eachLoad(b, func(payload []byte) error {
			_, err := caller.Request(subject, payload, 10*time.Second)
			return err
		})
	})
	b.Run("batched", func(b *testing.B) {
		answerBatches(b, connect(b), subject)
		r := newRequester(b, connect(b), subject)
		eachLoad(b, func(payload []byte) error {
			_, err := r.ask(payload)
			return err
		})
	})
}

// BenchmarkTell sends one way.
func BenchmarkTell(b *testing.B) {
	b.Run("remote/batched", func(b *testing.B) {
		t := newTeller(b, connect(b), connect(b))
		eachLoad(b, t.tell)
		if err := t.flush(); err != nil {
			b.Fatal(err)
		}
	})
}

// TestBatchedCalls proves that the limits do the work: each of many callers gets
// its own answers.
func TestBatchedCalls(t *testing.T) {
	const each = 200
	answerBatches(t, connect(t), subject)
	r := newRequester(t, connect(t), subject)
	var callers sync.WaitGroup
	for caller := range manyCallers {
		callers.Go(func() {
			for call := range each {
				want := fmt.Appendf(nil, "caller %d call %d", caller, call)
				got, err := r.ask(want)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %q, %v, want %q", got, err, want)
					return
				}
			}
		})
	}
	callers.Wait()
}

// TestBatchedTells proves that everything told arrives.
func TestBatchedTells(t *testing.T) {
	const each = 1000
	teller := newTeller(t, connect(t), connect(t))
	var senders sync.WaitGroup
	for range manyCallers {
		senders.Go(func() {
			for range each {
				if err := teller.tell(make([]byte, 64)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	senders.Wait()
	if err := teller.flush(); err != nil {
		t.Fatal(err)
	}
	if got, want := teller.arrived.Load(), teller.sent.Load(); got != want || want != manyCallers*each+1 {
		t.Errorf("got %d envelopes, want %d", got, want)
	}
}
