package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/bench/process"
	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/admin/dashboard"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// The number of viewers, and the length of a round. A round is long beside the 10 ms resolution of
// processor times on Linux.
const (
	tenViewers  = 10
	viewedRound = 15 * time.Second
)

// viewed compares processor times of a member and the dashboard with ten viewers and none, at 200
// calls a second.
func viewed(ctx context.Context, s settings, url string) error {
	var hosts []*process.Child
	for i := range 3 {
		c, _, err := spawn(url, "host", "viewed", "host"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		defer func() { _ = c.End() }()
		hosts = append(hosts, c)
	}
	server, line, err := spawn(url, "page", "viewed", "page")
	if err != nil {
		return err
	}
	defer func() { _ = server.End() }()
	page := "http://" + strings.TrimSpace(line)
	conn, err := shard.Dial(ctx, process.Config(url, "viewed", "caller"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	calling, stop := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer stop()
	refs := fixture.NewAccountClient(conn)
	calls.Go(func() {
		for i := 0; calling.Err() == nil; i++ {
			_, _ = refs.Ref(id(i%entities)).Add(ctx, 1)
			time.Sleep(5 * time.Millisecond)
		}
	})
	var served []float64 // processor time of the page's server, in µs a second
	run := func(viewers int) func(time.Duration) (measure, error) {
		return func(time.Duration) (measure, error) {
			m, err := viewRound(ctx, page, viewers, hosts[0], server)
			if viewers > 0 {
				served = append(served, float64(m.Servers.Microseconds()))
			}
			return m, err
		}
	}
	if _, err := run(0)(0); err != nil { // creates every entity, and brings the memory into use
		return err
	}
	before, err := memoryOf(hosts[0], server)
	if err != nil {
		return err
	}
	if err := (group{[]contestant{{"ten viewers", run(tenViewers)}, {"none", run(0)}}, []row{
		{title: "a member of three with ten viewers of the dashboard, processor time a second", unit: "µs", figure: cpuMicros, less: true},
	}}).print(os.Stdout, s.rounds, 0); err != nil {
		return err
	}
	fmt.Printf("| the process that serves it to them | %s | | |\n", show(served, "µs"))
	after, err := memoryOf(hosts[0], server)
	if err != nil {
		return err
	}
	const kB = 1000
	fmt.Printf("| memory of the member, after | %d kB | before %d kB | |\n", after[0]/kB, before[0]/kB)
	fmt.Printf("| memory of the process that serves the dashboard | %d kB | before %d kB | |\n", after[1]/kB, before[1]/kB)
	return nil
}

func cpuMicros(m measure) float64 { return float64(m.CPU.Microseconds()) }

func memoryOf(processes ...*process.Child) (all []int64, err error) {
	for _, p := range processes {
		n, err := resident(p.Pid())
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// viewRound lets viewers poll the page for a round. m.CPU and m.Servers are the processor times
// that host and server take per second.
func viewRound(ctx context.Context, page string, viewers int, host, server *process.Child) (m measure, err error) {
	looking, stop := context.WithTimeout(ctx, viewedRound)
	defer stop()
	var all sync.WaitGroup
	errs := make(chan error, viewers)
	begin := time.Now()
	hostBefore, err := processTime(host.Pid())
	if err != nil {
		return m, err
	}
	serverBefore, err := processTime(server.Pid())
	if err != nil {
		return m, err
	}
	for range viewers {
		all.Go(func() {
			if err := look(looking, page); err != nil && looking.Err() == nil {
				errs <- err
				stop()
			}
		})
	}
	<-looking.Done()
	all.Wait()
	if len(errs) > 0 {
		return m, <-errs
	}
	seconds := time.Since(begin).Seconds()
	hostAfter, err := processTime(host.Pid())
	if err != nil {
		return m, err
	}
	serverAfter, err := processTime(server.Pid())
	m.CPU = time.Duration(float64(hostAfter-hostBefore) / seconds)
	m.Servers = time.Duration(float64(serverAfter-serverBefore) / seconds)
	return m, err
}

func look(ctx context.Context, page string) error {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for i := 0; ; i++ {
		paths := []string{"/api/cluster?after=0"}
		if i%3 == 0 {
			paths = append(paths, "/api/shards?type=Account")
		}
		for _, path := range paths {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, page+path, nil)
			if err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			if err != nil {
				return err
			}
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %s", path, answer.Status)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

func servePage(ctx context.Context, url, cluster string) (stop func(), err error) {
	client, err := admin.Dial(ctx, admin.Options{Cluster: cluster, Transport: natstransport.New(url)})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: dashboard.Handler(client, dashboard.Options{Cluster: cluster}), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	fmt.Println(listener.Addr())
	return func() {
		_ = server.Close()
		_ = client.Close()
	}, nil
}
