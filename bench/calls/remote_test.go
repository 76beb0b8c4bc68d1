package calls

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/bench/limit"
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
		r := requester(b)
		eachLoad(b, func(payload []byte) error {
			_, err := r.Ask(payload)
			return err
		})
	})
}

// BenchmarkTell sends one way.
func BenchmarkTell(b *testing.B) {
	b.Run("remote/batched", func(b *testing.B) {
		t := teller(b)
		eachLoad(b, t.Tell)
		if err := t.Flush(); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("remote/shardgen", benchmarkShardgenTell)
	b.Run("local/shardgen", benchmarkShardgenLocalTell)
	b.Run("local/shardgen/add", benchmarkShardgenLocalAdd)
	b.Run("local/shardgen/one", benchmarkShardgenTellOne)
}

// must ends the test with err; started functions end with it.
func must(tb testing.TB, stop func(), err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
}

func report(tb testing.TB) func(error) { return func(err error) { tb.Error(err) } }

// requester calls an answerer at another connection, by batches.
func requester(tb testing.TB) *limit.Requester {
	tb.Helper()
	stop, err := limit.Answer(connect(tb), subject, report(tb))
	must(tb, stop, err)
	r, stop, err := limit.NewRequester(connect(tb), subject, report(tb))
	must(tb, stop, err)
	return r
}

// teller tells a receiver at another connection, by batches.
func teller(tb testing.TB) *limit.Teller {
	tb.Helper()
	stop, err := limit.Count(connect(tb), subject, report(tb))
	must(tb, stop, err)
	t, stop, err := limit.NewTeller(connect(tb), subject, report(tb))
	must(tb, stop, err)
	return t
}

// TestBatchedCalls proves that the limits do the work: each of many callers gets
// its own answers.
func TestBatchedCalls(t *testing.T) {
	const each = 200
	r := requester(t)
	var callers sync.WaitGroup
	for caller := range manyCallers {
		callers.Go(func() {
			for call := range each {
				want := fmt.Appendf(nil, "caller %d call %d", caller, call)
				got, err := r.Ask(want)
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
	told := teller(t)
	var senders sync.WaitGroup
	for range manyCallers {
		senders.Go(func() {
			for range each {
				if err := told.Tell(make([]byte, 64)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	senders.Wait()
	if err := told.Flush(); err != nil {
		t.Fatal(err)
	}
	if want, got := told.Counts(); got != want || want != manyCallers*each+1 {
		t.Errorf("got %d envelopes, want %d", got, want)
	}
}
