// Package hostile attacks a cluster with the rights of an ordinary client. It sends every kind of
// message that such a client can send; none of them may harm members or other clients.
package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// A Siege is an attack on a cluster of three processes, while another client calls.
type Siege struct {
	Messages int           // the number of messages of the attack
	Rate     int           // messages a second; 0 means as many as the server takes
	Callers  int           // goroutines of the other client
	Pause    time.Duration // between two calls of one caller
	Quiet    time.Duration // how long the calls are measured before the attack, after a warm-up of the same length
	Recovery time.Duration // the time within which the heaps must shrink again
	Log      io.Writer     // of the members
}

const (
	maxSlower = 3.0 // bounds the other client's p99 in the attack, as a multiple of the p99 before
	maxGrown  = 1.2 // bounds a member's heap in use after the attack, as a multiple of that before
)

// calls records the other client's calls in one part of a siege.
type calls struct {
	mu    sync.Mutex
	took  []time.Duration
	wrong []string
}

func (c *calls) add(d time.Duration, wrong string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, d)
	if wrong != "" && len(c.wrong) < 10 {
		c.wrong = append(c.wrong, wrong)
	}
}

func (c *calls) take() (n int, p50, p99 time.Duration, wrong []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.took)
	if n = len(c.took); n > 0 {
		p50, p99 = c.took[n/2], c.took[n*99/100]
	}
	wrong = c.wrong
	c.took, c.wrong = nil, nil
	return n, p50, p99, wrong
}

// Run attacks the cluster and prints the cost for the members and the other client. held reports
// whether all figures are within their limits.
func (s Siege) Run(ctx context.Context, out io.Writer) (held bool, err error) {
	dir, err := os.MkdirTemp("", "siege")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := Guard(dir, map[string]rights.Rights{
		"worker": rights.Worker(clusterName, ""), "web": rights.Client(clusterName, "web"),
		"evil": rights.Client(clusterName, "evil"), "bob": rights.Reader(clusterName, "bob"), "php": rights.Gateway(clusterName, "php"),
	})
	if err != nil {
		return false, err
	}
	defer func() { _ = server.Kill() }()
	var members []*process
	defer func() {
		for _, m := range members {
			m.end()
		}
	}()
	for _, name := range []string{"a", "b", "c"} {
		m, err := startProcess(URL(server, "worker"), name, s.Log)
		if err != nil {
			return false, err
		}
		members = append(members, m)
	}
	reader, err := admin.Dial(ctx, admin.Options{Cluster: clusterName, Name: "bob", Transport: natstransport.New(URL(server, "bob"))})
	if err != nil {
		return false, err
	}
	defer func() { _ = reader.Close() }()
	before, err := awaitMembers(ctx, reader, len(members))
	if err != nil {
		return false, err
	}
	conn, err := shard.Dial(ctx, shard.Config{Cluster: clusterName, Name: "web", Transport: natstransport.New(URL(server, "web"))})
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	attacker, err := NewAttacker(URL(server, "evil"), clusterName, "evil", before)
	if err != nil {
		return false, err
	}
	defer attacker.Close()
	if err := attacker.AsCaller(URL(server, "php")); err != nil {
		return false, err
	}
	r := &run{Siege: s, out: out, members: members, conn: conn, attacker: attacker, held: true}
	if err := r.run(ctx); err != nil {
		return false, err
	}
	after, err := awaitMembers(ctx, reader, len(members))
	if err != nil {
		return false, err
	}
	r.judge(slices.Equal(before, after), "members %v, before the attack %v", after, before)
	return r.held, nil
}

func awaitMembers(ctx context.Context, reader *admin.Client, n int) (all []transport.Address, err error) {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		v, err := reader.Members(ctx)
		if err == nil && len(v.Members) == n {
			for _, m := range v.Members {
				all = append(all, m.Address)
			}
			slices.SortFunc(all, transport.Address.Compare)
			return all, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %d members: %w", n, errors.Join(ctx.Err(), err))
		}
	}
}

type run struct {
	Siege
	out      io.Writer
	members  []*process
	conn     *shard.Conn
	attacker *Attacker
	calls    calls
	held     bool
}

func (r *run) judge(ok bool, format string, args ...any) {
	verdict := "ok  "
	if !ok {
		verdict, r.held = "MISS", false
	}
	fmt.Fprintf(r.out, "%s %s\n", verdict, fmt.Sprintf(format, args...))
}

func (r *run) run(ctx context.Context) error {
	calling, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	accounts := fixture.NewAccountClient(r.conn)
	for i := range r.Callers {
		wg.Go(func() { r.call(calling, accounts.Ref(fmt.Sprint("web-", i))) })
	}
	if err := pause(ctx, r.Quiet); err != nil {
		return err
	}
	r.calls.take() // drops the calls of the warm-up
	if err := pause(ctx, r.Quiet); err != nil {
		return err
	}
	n, p50, quiet, wrong := r.calls.take()
	r.judge(len(wrong) == 0, "before: %d calls, p50 %v, p99 %v %v", n, p50.Round(time.Microsecond), quiet.Round(time.Microsecond), wrong)
	begin, err := r.states()
	if err != nil {
		return err
	}
	if err := r.attacker.OpenSessions(ctx); err != nil {
		return err
	}
	r.calls.take()
	at := time.Now()
	if err := r.attacker.Flood(ctx, r.Messages, r.Rate); err != nil {
		return err
	}
	sent, denied := r.attacker.Sent()
	n, p50, loud, wrong := r.calls.take()
	r.judge(len(wrong) == 0, "attack: %d messages in %v, of which the server denied %d; %d calls, p50 %v, p99 %v %v", sent, time.Since(at).Round(time.Second), denied, n, p50.Round(time.Microsecond), loud.Round(time.Microsecond), wrong)
	r.judge(float64(loud) <= maxSlower*float64(quiet), "p99 of the other client's calls: %.1f times that before", float64(loud)/float64(quiet))
	if err := r.recover(ctx, begin); err != nil {
		return err
	}
	n, p50, p99, wrong := r.calls.take()
	r.judge(len(wrong) == 0, "after: %d calls, p50 %v, p99 %v %v", n, p50.Round(time.Microsecond), p99.Round(time.Microsecond), wrong)
	return nil
}

// call makes calls in turn, and checks that each was applied once.
func (r *run) call(ctx context.Context, account fixture.AccountRef) {
	want, unsure := int64(1), false
	for {
		at := time.Now()
		got, err := account.Add(ctx, 1)
		if ctx.Err() != nil {
			return
		}
		wrong := ""
		switch {
		case err != nil:
			wrong, unsure = err.Error(), true
		case got != want && !(unsure && got == want+1):
			wrong = fmt.Sprintf("%d, want %d", got, want)
			fallthrough
		default:
			want, unsure = got+1, false
		}
		r.calls.add(time.Since(at), wrong)
		if pause(ctx, r.Pause) != nil {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *run) states() (all []State, err error) {
	for _, m := range r.members {
		s, err := m.state()
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// recover waits until no member's heap exceeds maxGrown times its size in begin, before the attack.
// It waits for at most Recovery, and then judges the heaps. It prints the resident sets (RSS) but
// does not judge them, because they include free memory of Go's runtime.
func (r *run) recover(ctx context.Context, begin []State) error {
	at := time.Now()
	for {
		now, err := r.states()
		if err != nil {
			return err
		}
		back := true
		for i := range now {
			back = back && float64(now[i].Heap) <= maxGrown*float64(begin[i].Heap)
		}
		if !back && time.Since(at) < r.Recovery {
			if err := pause(ctx, 5*time.Second); err != nil {
				return err
			}
			continue
		}
		for i, s := range now {
			r.judge(float64(s.Heap) <= maxGrown*float64(begin[i].Heap), "member %s: heap %.2f MB, before %.2f MB; RSS %d MB, before %d MB, peak %d MB; %d goroutines, before %d",
				r.members[i].name, float64(s.Heap)/(1<<20), float64(begin[i].Heap)/(1<<20), s.RSS>>20, begin[i].RSS>>20, s.Peak>>20, s.Goroutines, begin[i].Goroutines)
			fmt.Fprintf(r.out, "     forbidden %d, foreign %d, ignored %d, over quota %d, expired %d, refused %d, answers dropped %d\n", s.Counters["forbidden message"], s.Counters["foreign frame"], s.Counters["ignored frame"], s.Counters["client over quota"], s.Counters["client expired"], s.Counters["refused"], s.Counters["answer dropped"])
		}
		r.judge(back, "waited %v after the attack for the memory to be back", time.Since(at).Round(time.Second))
		return nil
	}
}
