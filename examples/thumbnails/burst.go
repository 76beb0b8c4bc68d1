package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/shardgen/shardgen/examples/thumbnails/album"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// A burst adds pictures while workers are killed.
type burst struct {
	pictures, callers, kills int
	verbose                  bool
	url                      string
	stderr                   io.Writer

	workers []*process // the oldest first

	mu sync.Mutex
	result
}

type result struct {
	began           time.Time
	made            int // thumbnails, by the albums' answers
	missing, failed int
	killed          int
	fewest, most    int // resizers
	slowest         time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("thumbnails=%d missing=%d failed=%d killed=%d resizers=%d..%d slowest=%v seconds=%.1f",
		r.made, r.missing, r.failed, r.killed, r.fewest, r.most, r.slowest.Round(100*time.Millisecond), time.Since(r.began).Seconds())
}

func (b *burst) run(ctx context.Context) (result, error) {
	defer func() {
		for _, p := range b.workers {
			p.kill()
		}
	}()
	for i := range 3 {
		if err := b.start(fmt.Sprintf("worker-%d", i+1)); err != nil {
			return b.result, err
		}
	}
	conn, err := shard.Dial(ctx, shard.Config{Cluster: cluster, Name: "web", Transport: natstransport.New(b.url), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return b.result, err
	}
	defer func() { _ = conn.Close() }()
	albums, pool := album.NewAlbumClient(conn), album.NewResizerClient(conn)
	b.began = time.Now()
	var callers sync.WaitGroup
	for i := range b.callers {
		callers.Go(func() { b.add(ctx, albums, i) })
	}
	ended := make(chan struct{})
	go func() {
		callers.Wait()
		close(ended)
	}()
	if err := b.watch(ctx, pool, ended); err != nil {
		<-ended
		return b.result, err
	}
	stored := 0
	for i := range b.callers {
		n, err := albums.Ref(albumID(i)).Count(ctx)
		if err != nil {
			return b.result, err
		}
		stored += n
	}
	b.missing = b.made - stored
	return b.result, nil
}

func albumID(caller int) string { return fmt.Sprintf("album-%d", caller) }

// add adds a caller's share of the pictures to its album.
func (b *burst) add(ctx context.Context, albums *album.AlbumClient, caller int) {
	picture := make([]byte, 64*64)
	for i := caller; i < b.pictures; i += b.callers {
		asked := time.Now()
		_, err := albums.Ref(albumID(caller), shard.Timeout(30*time.Second)).Add(ctx, fmt.Sprintf("picture-%d", i), picture, 64)
		b.mu.Lock()
		b.slowest = max(b.slowest, time.Since(asked))
		if err == nil {
			b.made++
		} else {
			b.failed++
			fmt.Fprintln(b.stderr, err)
		}
		b.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
	}
}

// watch kills the oldest worker whenever a further share of the thumbnails is made, and starts
// another worker. It counts the resizers.
func (b *burst) watch(ctx context.Context, pool *album.ResizerClient, ended <-chan struct{}) error {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ended:
			return ctx.Err()
		case <-look.C:
		}
		n := 0
		for range pool.Each() {
			n++
		}
		b.mu.Lock()
		if n > 0 && (b.fewest == 0 || n < b.fewest) {
			b.fewest = n
		}
		b.most = max(b.most, n)
		kill := b.killed < b.kills && b.made+b.failed > b.pictures*(b.killed+1)/(b.kills+2)
		b.mu.Unlock()
		if kill {
			b.workers[0].kill()
			b.workers = b.workers[1:]
			b.killed++
			if err := b.start(fmt.Sprintf("worker-%d", 3+b.killed)); err != nil {
				return err
			}
		}
	}
}

type process struct{ cmd *exec.Cmd }

func (b *burst) start(name string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "worker", b.url, name)
	if b.verbose {
		cmd.Stderr = b.stderr
	}
	if _, err := cmd.StdinPipe(); err != nil { // closes when this process ends
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		p.kill()
		return fmt.Errorf("%s did not start: it printed %q (%v; run it with -v)", name, line, err)
	}
	b.workers = append(b.workers, p)
	return nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
