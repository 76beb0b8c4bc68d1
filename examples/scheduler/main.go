// Command scheduler runs jobs each second, and kills the worker that hosts one of them.
//
//	scheduler [-jobs N] [-periods N] [-v]
//
// It starts a NATS server with JetStream in a temporary folder, and three workers as separate
// processes. Each job is a durable entity with a reminder that repeats. After two periods the command
// kills the worker that hosts the first job with SIGKILL, and starts another. Each run publishes a
// message to a stream, which the server stamps with its time. When each job has run for all periods,
// the command compares the messages with the periods, and prints
//
//	jobs=20 runs=80 twice=0 missing=0 early=0 latest=132ms next=2026-11-30T09:00:00+01:00 seconds=4.7
//
// latest is how long after its due time the latest run was in the stream. next is when a job at nine
// on working days would run. The exit code is 1 if a period did not have one run, or one too early.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/examples/scheduler/job"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

const (
	period = time.Second
	runs   = "RUNS" // the stream
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 3 && args[0] == "worker" {
		return worker(ctx, args[1], args[2], stdin, stdout, stderr)
	}
	flags := flag.NewFlagSet("scheduler", flag.ContinueOnError)
	flags.SetOutput(stderr)
	jobs := flags.Int("jobs", 20, "`number` of jobs")
	periods := flags.Int("periods", 4, "`number` of periods, at least 3")
	verbose := flags.Bool("v", false, "let the workers log")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *jobs < 1 || *periods < 3 {
		return errors.New("want at least 1 job and 3 periods")
	}
	dir, err := os.MkdirTemp("", "scheduler-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := embedded.Start(embedded.Options{StoreDir: dir})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	ctx, cancel := context.WithTimeout(ctx, time.Minute+2*time.Duration(*periods)*period)
	defer cancel()
	c := crew{url: server.ClientURL(), logs: io.Discard}
	if *verbose {
		c.logs = stderr
	}
	defer c.killAll()
	began := time.Now()
	t, next, err := c.schedule(ctx, *jobs, *periods, stderr)
	if err != nil {
		return err
	}
	twice, missing := t.judge(*jobs, *periods)
	fmt.Fprintf(stdout, "jobs=%d runs=%d twice=%d missing=%d early=%d latest=%v next=%s seconds=%.1f\n", *jobs, t.runs, twice, missing,
		t.early, t.latest.Round(time.Millisecond), next.Format(time.RFC3339), time.Since(began).Seconds())
	if twice+missing+t.early > 0 {
		return errors.New("some periods had no run, several runs, or a run too early")
	}
	return nil
}

// schedule starts jobs, kills a worker, and returns the runs when all jobs have run for all periods.
func (c *crew) schedule(ctx context.Context, jobs, periods int, progress io.Writer) (t *tally, next time.Time, err error) {
	nc, err := nats.Connect(c.url)
	if err != nil {
		return nil, next, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, next, err
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: runs, Subjects: []string{"runs.*"}})
	if err != nil {
		return nil, next, err
	}
	reader, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, next, err
	}
	messages, err := reader.Messages()
	if err != nil {
		return nil, next, err
	}
	defer messages.Stop()
	for _, name := range []string{"worker-1", "worker-2", "worker-3"} {
		if err := c.start(name); err != nil {
			return nil, next, err
		}
	}
	conn, err := shard.Dial(ctx, shard.Config{Cluster: cluster, Name: "operator", Transport: natstransport.New(c.url), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, next, err
	}
	defer func() { _ = conn.Close() }()
	client := job.NewJobClient(conn)
	for i := range jobs {
		if err := client.Ref(jobID(i)).Every(ctx, period); err != nil {
			return nil, next, err
		}
	}
	if err := client.Ref("report").Cron(ctx, "0 9 * * 1-5", "Europe/Berlin"); err != nil {
		return nil, next, err
	}
	all, err := client.Scheduled(ctx, "report")
	if err != nil {
		return nil, next, err
	}
	next = all[0].Due
	if berlin, err := time.LoadLocation(all[0].Zone); err == nil {
		next = next.In(berlin)
	}
	t = &tally{due: map[string][]time.Time{}}
	for killed := false; !t.complete(jobs, periods); {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, next, fmt.Errorf("wait for runs: %w", err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, next, err
		}
		var r job.Run
		if err := json.Unmarshal(m.Data(), &r); err != nil {
			return nil, next, err
		}
		t.add(r, meta.Timestamp)
		if !killed && t.complete(jobs, 2) {
			killed = true
			home, err := client.Ref(jobID(0)).Home(ctx)
			if err != nil {
				return nil, next, err
			}
			c.kill(home)
			fmt.Fprintf(progress, "%s was killed, which hosted %s\n", home, jobID(0))
			if err := c.start("worker-4"); err != nil {
				return nil, next, err
			}
		}
	}
	return t, next, nil
}

func jobID(i int) string { return fmt.Sprint("job-", i) }
