package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/examples/bank/bank"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

type demo struct {
	transfers, accounts, kills int
	verbose                    bool
	url                        string
	stderr                     io.Writer
	client                     *bank.AccountClient
	made                       atomic.Int64

	mu      sync.Mutex
	balance []int64 // what each account should have
	entries []int64
}

const (
	workers = 4
	callers = 32
	opening = 100_00 // cents
)

type result struct{ transfers, lost, doubled, sum int64 }

// String returns the last line that a run prints.
func (r result) String() string {
	sum := "kept"
	if r.sum != 0 {
		sum = fmt.Sprintf("off by %d", r.sum)
	}
	return fmt.Sprintf("transfers=%d lost=%d doubled=%d sum=%s", r.transfers, r.lost, r.doubled, sum)
}

func (d *demo) run(ctx context.Context) (r result, err error) {
	d.balance, d.entries = make([]int64, d.accounts), make([]int64, d.accounts)
	var all []*process
	defer func() {
		for _, p := range all {
			p.kill()
		}
	}()
	for i := range workers {
		p, err := d.start(fmt.Sprintf("worker-%d", i+1))
		if err != nil {
			return r, err
		}
		all = append(all, p)
	}
	conn, err := shard.Dial(ctx, shard.Config{Cluster: cluster, Name: "teller", Transport: natstransport.New(d.url), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return r, err
	}
	defer func() { _ = conn.Close() }()
	d.client = bank.NewAccountClient(conn)
	for i := range d.accounts {
		if err := d.enter(ctx, i, opening, fmt.Sprintf("opening-%d", i)); err != nil {
			return r, err
		}
	}
	transferring, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var calls sync.WaitGroup
	killed := make(chan struct{}) // closed when all kills were made
	for caller := range callers {
		calls.Go(func() {
			if err := d.transfer(transferring, caller, killed); err != nil {
				stop(err)
			}
		})
	}
	for i := range d.kills {
		select {
		case <-time.After(1500 * time.Millisecond):
		case <-transferring.Done():
			return r, context.Cause(transferring)
		}
		victim := i % workers
		all[victim].kill()
		fmt.Fprintf(d.stderr, "%s was killed after %d transfers\n", all[victim].name, d.made.Load())
		p, err := d.start(fmt.Sprintf("worker-%d", workers+i+1))
		if err != nil {
			return r, err
		}
		all[victim] = p
	}
	close(killed)
	calls.Wait()
	if err := context.Cause(transferring); err != nil {
		return r, err
	}
	return d.check(ctx)
}

func (d *demo) transfer(ctx context.Context, caller int, killed <-chan struct{}) error {
	for n := 0; ; n++ {
		select {
		case <-killed:
			if d.made.Load() >= int64(d.transfers) {
				return nil
			}
		default:
		}
		from, to, amount := rand.IntN(d.accounts), rand.IntN(d.accounts), 1+rand.Int64N(50_00)
		id := fmt.Sprintf("transfer-%d-%d", caller, n)
		err := d.enter(ctx, from, -amount, id+"-from")
		if errors.Is(err, bank.ErrNotCovered) {
			continue
		}
		if err == nil {
			err = d.enter(ctx, to, amount, id+"-to")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		d.made.Add(1)
	}
}

// enter makes one deposit or, if amount is negative, one withdrawal, exactly once. It repeats the
// call with the same idempotency key until the account has answered or ctx has ended.
func (d *demo) enter(ctx context.Context, account int, amount int64, key string) (err error) {
	a := d.client.Ref(accountID(account), shard.CommandID(key))
	for ctx.Err() == nil {
		if amount < 0 {
			_, err = a.Withdraw(ctx, -amount)
		} else {
			_, err = a.Deposit(ctx, amount)
		}
		var refused *shard.CallError
		if err == nil || !errors.As(err, &refused) { // it ran
			break
		}
	}
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.balance[account] += amount
		d.entries[account]++
	}
	return err
}

func accountID(i int) string { return fmt.Sprintf("account-%d", i) }

func (d *demo) check(ctx context.Context) (result, error) {
	r := result{transfers: d.made.Load(), sum: -opening * int64(d.accounts)}
	for i := range d.accounts {
		balance, entries, err := d.client.Ref(accountID(i)).Statement(ctx)
		if err != nil {
			return r, err
		}
		r.sum += balance
		r.lost += max(d.entries[i]-entries, 0)
		r.doubled += max(entries-d.entries[i], 0)
		if balance != d.balance[i] && entries == d.entries[i] {
			return r, fmt.Errorf("%s has %d, want %d", accountID(i), balance, d.balance[i])
		}
	}
	return r, nil
}

type process struct {
	name string
	cmd  *exec.Cmd
}

func (d *demo) start(name string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "worker", d.url, name)
	if d.verbose {
		cmd.Stderr = d.stderr
	}
	if _, err := cmd.StdinPipe(); err != nil { // closes when this process ends
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{name, cmd}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		p.kill()
		return nil, fmt.Errorf("%s did not start: it printed %q (%v; run it with -v)", name, line, err)
	}
	return p, nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
