package durablehost

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// TestJetStreamIsKilled: while a nats-server is repeatedly killed and started during commits, every
// command is applied once, and the next home finds all commits.
func TestJetStreamIsKilled(t *testing.T) {
	server := natsproc.Start(t, "-js", "-sd", t.TempDir())
	open := func() *natsstore.Store {
		s, err := natsstore.Open(within(t, 30*time.Second), server.URL(), natsstore.Config{Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	shard, p := newShard(t, open().Shards(), 1, durable.Limits{TailCommits: 100})
	shard.Open(anEpoch + 1)
	tenureOf(t, shard)

	const callers = 8
	var source Source
	var counts [callers]int
	var wg sync.WaitGroup
	over := make(chan struct{})
	for i := range callers {
		entity := fmt.Sprintf("e%d", i)
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				id := begun(&source)
				c := commandOf(id, 99, entity, "Add", nil)
				for !addOnce(t, shard, c, entity) {
					<-time.After(10 * time.Millisecond)
				}
				source.End(id.Number)
				counts[i]++
			}
		})
	}
	acked := func() int { return p.saw(durable.Checkpointed) }
	for range 2 {
		before := acked()
		for ctx := within(t, 20*time.Second); acked() == before && ctx.Err() == nil; {
			<-time.After(time.Millisecond)
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	wg.Wait()

	next, _ := newShard(t, open().Shards(), 2, durable.Limits{})
	next.Open(anEpoch + 2)
	tenure := tenureOf(t, next)
	total := 0
	for i, want := range counts {
		if got := get(t, tenure, fmt.Sprintf("e%d", i)); got != strconv.Itoa(want) {
			t.Errorf("e%d was added to %q times, want %d", i, got, want)
		}
		total += want
	}
	t.Logf("%d commands, %d checkpoints", total, acked())
}

// addOnce sends a command. It reports whether the command was answered.
func addOnce(t *testing.T, s *Shard, c durable.Command, entity string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tenure, err := s.Tenure(ctx)
	if err != nil {
		return false
	}
	switch a := tenure.Admit(&c); a.Verdict {
	case durable.Run:
	case durable.Replay:
		return tenure.Wait(ctx, a.Ticket) == nil
	case durable.Mismatch, durable.BelowFloor:
		t.Errorf("%+v: verdict %d", c, a.Verdict)
		return true
	default:
		return false
	}
	l, err := tenure.Load(ctx, entity)
	if err != nil {
		tenure.Discard(&c)
		return false
	}
	n, _ := strconv.Atoi(string(l.State))
	ticket, err := tenure.Commit(&durable.Turn{Entity: entity, State: []byte(strconv.Itoa(n + 1)), Command: &c})
	return err == nil && tenure.Wait(ctx, ticket) == nil
}
