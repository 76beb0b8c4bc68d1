package natsstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/store"
)

type conn struct {
	nc      *nats.Conn
	name    string // of the store
	js      string // prefix of the subjects of JetStream's API
	inbox   string // with a dot at the end
	timeout time.Duration
	outages atomic.Uint64 // how often the connection was lost and came back

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]*request
	sweeps  *time.Timer // ends unanswered requests whose then is set; nil means none is due
	round   int         // number of sweeps so far
}

type request struct {
	subject string
	many    bool // the answer is several messages; the last has a status
	got     []*nats.Msg
	err     error
	done    chan struct{}  // closed when the request has ended; nil if then is set
	then    func(*request) // called without a lock when the request has ended
	round   int            // the conn's round when the request was sent; only if then is set
}

func (r *request) end() {
	if r.then != nil {
		r.then(r)
		return
	}
	close(r.done)
}

// errLost means that the connection was lost after sending.
var errLost = errors.New("connection to the NATS server lost before the answer (the client reconnects)")

var errAway = errors.New("not connected to a NATS server (the client reconnects; is a server running?)")

// Options that differ from nats.go's defaults.
const (
	reconnectWait = 100 * time.Millisecond
	pingInterval  = time.Second
	maxPingsOut   = 3
)

// openPatience bounds Open's wait; it equals the default of Membership.JoinTimeout.
const openPatience = 30 * time.Second

// dial connects to a server, and waits until one answers.
func dial(ctx context.Context, url string, cfg Config) (*conn, error) {
	if err := checkURL(url); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	for attempt := 1; ; attempt++ {
		c, err := connect(url, cfg)
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, fs.ErrPermission):
			return nil, fmt.Errorf("store: connect to NATS: %w: %w", store.ErrUnavailable, err)
		case !absent(err):
			return nil, fmt.Errorf("store: connect to NATS: %w: %w (check the URL and ConnectOptions)", store.ErrUnavailable, err)
		}
		if attempt == 1 {
			cfg.Logger.Warn("the store waits for a NATS server", "server", redacted(url), "err", err)
		}
		if !pause(ctx, reconnectWait) {
			return nil, fmt.Errorf("store: connect to NATS: %w: %w (is a server running there?)", store.ErrUnavailable, err)
		}
	}
}

// absent reports whether err means that no server answered; a later attempt may succeed.
func absent(err error) bool {
	var broken net.Error
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, io.EOF) || errors.As(err, &broken)
}

// checkURL returns an error for a URL whose scheme NATS does not know.
func checkURL(servers string) error {
	for _, server := range strings.Split(servers, ",") {
		scheme, _, found := strings.Cut(strings.TrimSpace(server), "://")
		if found && !slices.Contains([]string{"nats", "tls", "ws", "wss"}, scheme) {
			return fmt.Errorf("server URL %q: scheme is none of nats, tls, ws, wss (want for example nats://127.0.0.1:4222)", redacted(server))
		}
	}
	return nil
}

func redacted(servers string) string {
	all := strings.Split(servers, ",")
	for i, server := range all {
		if u, err := url.Parse(strings.TrimSpace(server)); err == nil {
			all[i] = u.Redacted()
		} else if at := strings.LastIndexByte(server, '@'); at >= 0 {
			all[i] = server[at+1:]
		}
	}
	return strings.Join(all, ",")
}

// apiPrefix returns the prefix of the subjects of JetStream's API in a domain.
func apiPrefix(domain string) string {
	if domain == "" {
		return "$JS.API."
	}
	return "$JS." + domain + ".API."
}

func connect(url string, cfg Config) (*conn, error) {
	c := &conn{name: cfg.Name, js: apiPrefix(cfg.Domain), timeout: cfg.Timeout, waiting: make(map[uint64]*request)}
	options := append([]nats.Option{
		nats.Timeout(cfg.Timeout), nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPingsOut),
		nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait/5, reconnectWait/5),
	}, cfg.ConnectOptions...)
	options = append(options,
		nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectErrHandler(nil),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { c.disconnected() }), c.reconnected,
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.denied(err) }))
	nc, err := nats.Connect(url, options...)
	if err != nil {
		return nil, err
	}
	c.nc, c.inbox = nc, nc.NewInbox()+"."
	sub, err := nc.Subscribe(c.inbox+"*", c.receive)
	if err == nil { // the requests under way bound the number of answers
		err = sub.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = nc.FlushTimeout(cfg.Timeout)
	}
	if last := nc.LastError(); err == nil && errors.Is(last, nats.ErrPermissionViolation) {
		err = fmt.Errorf("%w: %w%s", fs.ErrPermission, last, grant(cfg.Name)) // this user would never get an answer
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

func (c *conn) close() {
	c.nc.Close()
	c.fail(nats.ErrConnectionClosed, func(*request) bool { return true })
}

func (c *conn) disconnected() { c.fail(errLost, func(*request) bool { return true }) }

// reconnected is a nats.Option that counts outages, then calls the user's handler.
func (c *conn) reconnected(o *nats.Options) error {
	then := o.ReconnectedCB
	o.ReconnectedCB = func(nc *nats.Conn) {
		c.outages.Add(1)
		if then != nil {
			then(nc)
		}
	}
	return nil
}

func (c *conn) receive(m *nats.Msg) {
	token, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, c.inbox), 36, 64)
	if err != nil {
		return
	}
	c.mu.Lock()
	r := c.waiting[token]
	if r == nil {
		c.mu.Unlock()
		return // its caller has gone
	}
	r.got = append(r.got, m)
	ends := !r.many || m.Header.Get("Status") != ""
	if ends {
		delete(c.waiting, token)
	}
	c.mu.Unlock()
	if ends {
		r.end()
	}
}

// fail ends, with err, each request r where which(r) is true.
func (c *conn) fail(err error, which func(*request) bool) {
	var ended []*request
	c.mu.Lock()
	for token, r := range c.waiting {
		if which(r) {
			r.err = err
			delete(c.waiting, token)
			ended = append(ended, r)
		}
	}
	c.mu.Unlock()
	for _, r := range ended {
		r.end()
	}
}

// sweepParts is how many times sweep, which ends unanswered requests, runs within a timeout.
const sweepParts = 5

var errUnanswered = errors.New("no answer within the timeout")

// begin publishes m. It calls the function then at the request's end, at the latest after 1.2 times
// the timeout.
func (c *conn) begin(m *nats.Msg, then func(*request)) error {
	r := &request{subject: m.Subject, then: then}
	c.mu.Lock()
	c.last++
	token := c.last
	r.round = c.round
	c.waiting[token] = r
	if c.sweeps == nil {
		c.sweeps = time.AfterFunc(c.timeout/sweepParts, c.sweep)
	}
	c.mu.Unlock()
	m.Reply = c.reply(token)
	err := c.nc.PublishMsg(m)
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[token] == nil {
		return nil // the request has ended meanwhile
	}
	delete(c.waiting, token)
	return err
}

func (c *conn) sweep() {
	c.mu.Lock()
	c.round++
	round, left := c.round, false
	for _, r := range c.waiting {
		left = left || r.then != nil
	}
	if c.sweeps = nil; left {
		c.sweeps = time.AfterFunc(c.timeout/sweepParts, c.sweep)
	}
	c.mu.Unlock()
	c.fail(errUnanswered, func(r *request) bool { return r.then != nil && round-r.round > sweepParts })
}

// denied ends requests that the server refused for lack of a right, because the server never
// answers these.
func (c *conn) denied(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	text := err.Error()
	c.fail(fs.ErrPermission, func(r *request) bool {
		return strings.Contains(strings.ToLower(text), strings.ToLower(fmt.Sprintf("%q", r.subject)))
	})
}

func grant(name string) string {
	return fmt.Sprintf(" (grant it: shardctl permissions ROLE -store %s prints the rights of a user; ROLE is worker for a member, with -publish for the subjects of shard.Publish, client for a follower of events, store for shardctl store)", name)
}

func (c *conn) expect(subject string, many bool) (r *request, token uint64) {
	r = &request{subject: subject, many: many, done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.waiting[c.last] = r
	return r, c.last
}

func (c *conn) reply(token uint64) string { return c.inbox + strconv.FormatUint(token, 36) }

func (c *conn) forget(token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, token)
}

// send publishes m as a request whose answer await returns.
func (c *conn) send(ctx context.Context, m *nats.Msg, many bool) (*request, uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	r, token := c.expect(m.Subject, many)
	m.Reply = c.reply(token)
	if err := c.nc.PublishMsg(m); err != nil {
		c.forget(token)
		return nil, 0, unsent(err)
	}
	return r, token, nil
}

func unsent(err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting) {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, errAway)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// await waits for a request's answer. Its error wraps the error lost, or ErrUnavailable if the
// request certainly had no effect.
func (c *conn) await(ctx context.Context, r *request, token uint64, lost error) ([]*nats.Msg, error) {
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-ctx.Done():
		c.forget(token)
		return nil, fmt.Errorf("%w: %w", lost, ctx.Err())
	case <-timer.C:
		c.forget(token)
		return nil, c.unanswered(lost)
	}
	return c.outcome(r, lost)
}

func (c *conn) outcome(r *request, lost error) ([]*nats.Msg, error) {
	switch {
	case errors.Is(r.err, errUnanswered):
		return nil, c.unanswered(lost)
	case errors.Is(r.err, fs.ErrPermission):
		return nil, finalError{fmt.Errorf("%w: %w: this user has no right to publish to %q%s", store.ErrUnavailable, fs.ErrPermission, r.subject, grant(c.name))}
	case r.err != nil:
		return nil, fmt.Errorf("%w: %w", lost, r.err)
	}
	return r.got, nil
}

func (c *conn) unanswered(lost error) error {
	return fmt.Errorf("%w: no answer from JetStream within %v (nats-server is overloaded or its disk is full: see its log; if the disk is full, make room and restart it)", lost, c.timeout)
}

// ask sends a request and waits for its answer. It returns errNobody for status 503.
func (c *conn) ask(ctx context.Context, m *nats.Msg, many bool, lost error) ([]*nats.Msg, error) {
	r, token, err := c.send(ctx, m, many)
	if err != nil {
		return nil, err
	}
	got, err := c.await(ctx, r, token, lost)
	if err == nil && len(got) == 1 && nobody(got[0]) {
		return nil, errNobody
	}
	return got, err
}

// errNobody means that no server takes messages of this subject now.
var errNobody = errors.New("no server listens on the subject (no responders)")

func nobody(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get("Status") == "503"
}
