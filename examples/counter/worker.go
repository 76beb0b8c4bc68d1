package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/shardgen/shardgen/examples/counter/counter"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/health"
	"github.com/shardgen/shardgen/runtime/membership"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// leaveTimeout bounds how long a leaving worker hands off its shards. It is the default of
// Config.LeaveTimeout.
const leaveTimeout = 60 * time.Second

func runWorker(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := newFlags("worker", stderr)
	var to connection
	to.flags(flags)
	cluster := flags.String("cluster", defaultCluster, "`name` of the cluster")
	listen := flags.String("listen", "", "TCP `address` for calls that do not pass the NATS server, as :7000 (default: there is none)")
	advertise := flags.String("advertise", "", "`host` at which others reach -listen")
	name := flags.String("name", "", "`name` of the worker, unique in its cluster (default <hostname>-<pid>)")
	replicas := flags.Int("replicas", 0, "`number` of NATS servers that keep each counter (default: the store's)")
	membershipBy := membershipFlag(flags)
	minMembers := flags.Int("min-members", 1, "`number` of workers before the first one is up: more than half of them")
	leaveDelay := flags.Duration("leave-delay", 0, "`time` to serve on after SIGTERM, while /readyz fails")
	probes := flags.String("health", "", "`address` for HTTP probes: /livez, /readyz and /settledz (default: none)")
	verbose := flags.Bool("v", false, "log more than warnings")
	parent := flags.Bool("parent", false, "end at once when standard input closes, so as not to outlive the process that started this one")
	if err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	options, err := to.options()
	if err != nil {
		return err
	}
	if err := checkMembership(*membershipBy); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	orphaned := make(chan struct{})
	if *parent {
		go func() { // ends with the process: a read cannot be taken back
			_, _ = io.Copy(io.Discard, stdin)
			close(orphaned)
			cancel()
		}()
	}
	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelInfo
	}
	if to.url == defaultURL { // an orchestrator passes an address with a password in the environment
		to.url = cmp.Or(os.Getenv("NATS_URL"), defaultURL)
	}
	s, err := natsstore.Open(ctx, to.url, natsstore.Config{Name: *cluster, Replicas: *replicas, ConnectOptions: options})
	if err != nil {
		return err
	}
	defer s.Close()
	members := membership.Options{MinMembers: *minMembers, LeaveDelay: *leaveDelay}
	if *membershipBy == byTable {
		members.Table.Store = s
	}
	node := shard.New(shard.Config{
		Cluster:    *cluster,
		Name:       *name,
		Transport:  natstransport.New(to.url, natstransport.ConnectOptions(options...)),
		Store:      s,
		Membership: members,
		Direct:     shard.DirectOptions{Listen: *listen, Advertise: *advertise},
		Logger:     slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	})
	defer func() { _ = node.Close() }()
	if err := counter.HostCounter(node, func() *counter.Counter { return &counter.Counter{} }); err != nil {
		return err
	}
	if *probes != "" {
		stop, err := serveProbes(*probes, node, stdout)
		if err != nil {
			return err
		}
		defer stop()
	}
	notified := make(chan error, 1)
	go func() { notified <- health.Notify(context.WithoutCancel(ctx), node.Health) }()
	defer func() {
		_ = node.Close() // ends Notify
		if err := <-notified; err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", node.Name(), err)
		}
	}()
	if err := node.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s is up\n", node.Name())
	select {
	case <-ctx.Done():
	case <-node.Done():
		return node.Err()
	}
	select {
	case <-orphaned:
		return fmt.Errorf("%s: the process that started it is gone", node.Name())
	default:
	}
	leave, stop := context.WithTimeout(context.WithoutCancel(ctx), *leaveDelay+leaveTimeout)
	defer stop()
	if err := node.Shutdown(leave); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s has left\n", node.Name())
	return nil
}

func serveProbes(addr string, node *shard.Node, stdout io.Writer) (stop func(), err error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("-health: %w", err)
	}
	fmt.Fprintf(stdout, "%s serves probes at %s\n", node.Name(), listener.Addr())
	server := &http.Server{Handler: health.Handler(node.Health), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until stop
	}()
	return func() {
		_ = server.Close()
		<-served
	}, nil
}
