package e2e

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestHostileNeverAcknowledges: a client asks for 400 MB of answers, 100 kB each, and acknowledges
// none. The entity's home keeps as many answers as one session may hold, and refuses further calls.
// A client with another name still gets such answers.
func TestHostileNeverAcknowledges(t *testing.T) {
	url := leastPrivilege(t, map[string]rights.Rights{
		"worker": rights.Worker("e2e", ""), "web": rights.Client("e2e", "web"), "evil": rights.Client("e2e", "evil"),
	})
	home := newCluster(t, url("worker")).start("a")
	web := fixture.NewAccountClient(newCluster(t, url("web")).dial("web")).Ref("big")
	if err := web.Note(t.Context(), strings.Repeat("x", 100_000)); err != nil {
		t.Fatal(err)
	}
	evil := newCluster(t, url("evil"))
	config := evil.config("evil")
	config.Transport = hostile.Unacknowledging(natstransport.New(evil.url))
	conn, err := shard.Dial(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })

	const calls, each = 4000, 100_000
	begin := heap()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	greedy := fixture.NewAccountClient(conn).Ref("big")
	var answered sync.WaitGroup
	for range calls {
		answered.Go(func() { _, _ = greedy.Line(ctx, 0) })
	}
	await(ctx, t, "most calls are refused", func() bool {
		n := home.Counters()
		return n["refused"]+n["answer dropped"]+n["ignored frame"] > 0 && n["refused"] > calls/2
	})
	grown := heap() - begin
	t.Logf("%d calls, %d MB of answers: the heap grew by %d MB; counted %v", calls, calls*each>>20, grown>>20, nonzero(home.Counters()))
	if most := int64(100 << 20); grown > most {
		t.Errorf("the heap grew by %d MB, want at most %d MB", grown>>20, most>>20)
	}

	for i := range 100 {
		if line, err := web.Line(t.Context(), 0); err != nil || len(line) != each {
			t.Fatalf("call %d of another client: %d bytes, %v", i, len(line), err)
		}
	}
	// The client has read the frames that the window allows, so it gets no refusal.
	cancel()
	answered.Wait()
	if err := home.Err(); err != nil {
		t.Error(err)
	}
}

// TestSlowClientHearsOverload: a client that acknowledges gets an error which says that it asks for
// too much at once, and that its call did not run.
func TestSlowClientHearsOverload(t *testing.T) {
	url := leastPrivilege(t, map[string]rights.Rights{"worker": rights.Worker("e2e", ""), "web": rights.Client("e2e", "web")})
	workers := newCluster(t, url("worker"))
	config := workers.config("a")
	config.Limits.Window, config.Limits.MaxBuffered = 64<<10, 64<<10 // as small as can be: two answers are too many
	workers.run(workers.host(config))
	web := newCluster(t, url("web")).config("web")
	web.Limits.Window = 64 << 10
	conn, err := shard.Dial(t.Context(), web)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	big := fixture.NewAccountClient(conn).Ref("big")
	if err := big.Note(t.Context(), strings.Repeat("x", 100_000)); err != nil {
		t.Fatal(err)
	}
	const calls = 200
	errs := make(chan error, calls)
	for range calls {
		go func() {
			line, err := big.Line(t.Context(), 0)
			if err == nil && len(line) != 100_000 {
				err = fmt.Errorf("%d bytes", len(line))
			}
			errs <- err
		}()
	}
	right, refused := 0, 0
	for range calls {
		switch err := <-errs; {
		case err == nil:
			right++
		case errors.Is(err, shard.ErrOverloaded) && shard.OutcomeOf(err) == shard.NotExecuted && strings.Contains(err.Error(), "Config.Limits.AnswerBytes"):
			refused++
		case shard.OutcomeOf(err) == shard.Executed: // its results were dropped
			refused++
		default:
			t.Errorf("a call: %v", err)
		}
	}
	t.Logf("%d answers, %d refused", right, refused)
	if right == 0 || refused == 0 {
		t.Errorf("%d answers, %d refused, want some of each", right, refused)
	}
	if _, err := big.Line(t.Context(), 0); err != nil {
		t.Errorf("a call afterwards: %v", err)
	}
}

// heap returns the bytes in use in this process.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func nonzero(counts map[string]uint64) map[string]uint64 {
	for name, n := range counts {
		if n == 0 {
			delete(counts, name)
		}
	}
	return counts
}
