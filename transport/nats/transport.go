package natstransport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/transport"
)

// A Transport opens links over one NATS server or a cluster of NATS servers.
type Transport struct {
	url      string
	settings settings
}

var _ transport.Transport = (*Transport)(nil)

// New returns a transport to the servers of url, a comma-separated list such as
// "nats://10.0.0.1:4222,nats://10.0.0.2:4222". It does no I/O; Open returns the error of a bad URL.
func New(url string, opts ...Option) *Transport {
	t := &Transport{url: url, settings: settings{connectTimeout: defaultConnectTimeout}}
	for _, o := range opts {
		o(&t.settings)
	}
	return t
}

// Open connects all channels. If no server can be reached, it tries again until ctx ends or
// ConnectTimeout has passed. It fails at once for a bad URL or name, refused credentials or missing
// permissions.
func (t *Transport) Open(ctx context.Context, o transport.Options) (transport.Link, error) {
	l, err := t.open(ctx, o)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, errNoURL):
		return nil, fmt.Errorf("open link: %w", err)
	}
	return nil, fmt.Errorf("open link: %s: %w", t.where(), err)
}

func (t *Transport) where() string {
	if t.url == "" {
		return "server in this process"
	}
	return redact(t.url)
}

func (t *Transport) open(ctx context.Context, o transport.Options) (*link, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	no, err := t.natsOptions()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.settings.connectTimeout,
		fmt.Errorf("no connection to a server within %v", t.settings.connectTimeout))
	defer cancel()

	l := newLink(o, no)
	// Control is opened first: if it fails, lanes would fail with the same error.
	if err := (&upkeep{channel: l.channels[0]}).open(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	errs := make([]error, len(l.channels))
	var wg sync.WaitGroup
	for i, c := range l.channels[1:] {
		wg.Go(func() { errs[i] = (&upkeep{channel: c}).open(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	for _, c := range l.channels {
		c.tell(c.connection.Load().state())
		l.wg.Go(func() { (&upkeep{channel: c}).run(l.ctx) })
	}
	return l, nil
}

func newLink(o transport.Options, no nats.Options) *link {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	name := no.Name
	if name == "" {
		name = "shardgen " + o.Cluster + " " + o.Self.Name
	}
	l := &link{closeTimeout: closeTimeout}
	l.outage = &outage{log: log.With("cluster", o.Cluster, "self", o.Self.String())}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	for id := transport.Control; int(id) < o.Lanes; id++ {
		c := &channel{
			id:       id,
			options:  no,
			subjects: newSubjects(o.Cluster, o.Self, id),
			client:   o.Client,
			log:      log.With("cluster", o.Cluster, "self", o.Self.String(), "channel", channelWord(id)),
			outage:   l.outage,
			onState:  o.OnState,
			role:     roleOf(o.Cluster, o.Self),
			messages: make(chan *nats.Msg, queueLength),
			quit:     make(chan struct{}),
			dry:      make(chan struct{}),
			serving:  make(chan struct{}, 1),
		}
		if c.isControl() {
			c.probes = c.subjects.probes(o.Self)
		}
		c.routes = routes{subjects: &c.subjects, byPeer: map[transport.Peer]route{}}
		c.options.Name = name + " " + channelWord(id)
		l.channels = append(l.channels, c)
	}
	l.scout.control, l.scout.outposts = l.channels[0], make(map[string]*outpost)
	return l
}

// closeTimeout bounds how long Close waits for the server to read sent messages.
const closeTimeout = time.Second

func (t *Transport) natsOptions() (nats.Options, error) {
	o := nats.GetDefaultOptions()
	o.ReconnectWait = defaultReconnectWait
	o.ReconnectJitter = defaultReconnectJitter
	o.ReconnectJitterTLS = defaultReconnectJitter
	o.PingInterval = defaultPingInterval
	o.MaxPingsOut = defaultMaxPingsOut
	o.FlusherTimeout = defaultFlusherTimeout
	o.WriteBufferSize = 1 // each message is a batch: write it at once, not from another goroutine
	for _, f := range t.settings.connect {
		if f == nil {
			continue
		}
		if err := f(&o); err != nil {
			return o, fmt.Errorf("connect option: %w", err)
		}
	}
	if o.InProcessServer == nil || t.url != "" {
		servers, err := parseURLs(t.url)
		if err != nil {
			return o, err
		}
		o.Servers = servers
	}
	o.AllowReconnect = false
	o.RetryOnFailedConnect = false
	o.ReconnectBufSize = -1
	o.ReconnectOnFlusherError = true // otherwise a failed write loses bytes without a break
	o.NoEcho = false
	o.SkipSubjectValidation = true // names are checked once, when a subject is built
	o.NoCallbacksAfterClientClose = false
	return o, nil
}

// ServeRequests receives requests on a separate connection, so that clients' load does not delay
// calls between members. If that connection breaks, nats.go reconnects.
func (t *Transport) ServeRequests(ctx context.Context, o transport.RequestOptions) (stop func(), err error) {
	options, err := t.natsOptions()
	if err != nil {
		return nil, fmt.Errorf("serve requests: %w", err)
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	options.AllowReconnect, options.MaxReconnect = true, -1
	options.Timeout = t.settings.connectTimeout
	options.SkipSubjectValidation = false // reply subjects come from clients
	options.Name = "shardgen " + o.Cluster + " " + o.Name + " requests"
	broken := &faults{log: log}
	options.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) {
		broken.warn("requests", "err", bounded.Error(explain(deny(err, workerRole(o.Cluster)))))
	}
	nc, err := options.Connect()
	if err != nil {
		return nil, fmt.Errorf("serve requests: %s: %w", redact(t.url), err)
	}
	s := &requests{options: o, faults: &faults{log: log}}
	for _, kind := range o.Kinds {
		sub, err := nc.QueueSubscribe(requestPrefix(o.Cluster)+"*."+kind+".>", gatewayQueue, s.take)
		if err != nil {
			nc.Close()
			return nil, fmt.Errorf("serve requests: %s: %w", redact(t.url), err)
		}
		s.subs = append(s.subs, sub)
	}
	// nats.go requires a deadline. The context of a node's Run has none.
	ctx, cancel := context.WithTimeout(ctx, t.settings.connectTimeout)
	defer cancel()
	err = nc.Publish(nats.InboxPrefix+wordProbe, nil) // answers are published to such subjects, too
	if err == nil {
		err = nc.FlushWithContext(ctx)
	}
	if last := nc.LastError(); err == nil && errors.Is(last, nats.ErrPermissionViolation) {
		err = deny(last, workerRole(o.Cluster))
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("serve requests: %s: %w", redact(t.url), err)
	}
	return func() {
		s.drain(nc)
		s.close()
		nc.Close() // sends the answers that are still in its buffer
	}, nil
}
