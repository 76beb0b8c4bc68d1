package natstransport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A dialer opens the byte streams of one attempt to connect. It closes them when the attempt's
// context ends, because nats.go does not obey that context.
type dialer struct {
	ctx  context.Context // context of the attempt, and of the dialer
	opts *nats.Options   // the user's dialers

	mu   sync.Mutex
	stop []func() bool
	last *wire
	err  error // error of the last dial, which nats.go reports only as "no servers"
}

func (d *dialer) use(o *nats.Options) {
	copied := *o
	d.opts = &copied
	if o.InProcessServer != nil {
		o.InProcessServer = d
		return
	}
	o.CustomDialer = d
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	if d.opts.CustomDialer != nil {
		return d.took(d.opts.CustomDialer.Dial(network, address))
	}
	nd := net.Dialer{Timeout: d.opts.Timeout}
	if d.opts.Dialer != nil {
		nd = *d.opts.Dialer
	}
	if d.opts.AllowMultipathTCP != nil {
		nd.SetMultipathTCP(*d.opts.AllowMultipathTCP)
	}
	return d.took(nd.DialContext(d.ctx, network, address))
}

// InProcessConn implements nats.InProcessConnProvider.
func (d *dialer) InProcessConn() (net.Conn, error) {
	return d.took(d.opts.InProcessServer.InProcessConn())
}

// SkipTLSHandshake returns the result of the user's dialer.
func (d *dialer) SkipTLSHandshake() bool {
	s, ok := d.opts.CustomDialer.(interface{ SkipTLSHandshake() bool })
	return ok && s.SkipTLSHandshake()
}

func (d *dialer) took(c net.Conn, err error) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	if err != nil {
		return nil, err
	}
	d.stop = append(d.stop, context.AfterFunc(d.ctx, func() { _ = c.Close() }))
	d.last = &wire{Conn: c}
	return d.last, nil
}

// wire returns the last dialled wire, which is that of the connection.
func (d *dialer) wire() *wire {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// release lets connections outlive the attempt's context.
func (d *dialer) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.stop {
		stop()
	}
	d.stop = nil
}

func (d *dialer) lastErr() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

const (
	defaultConnectTimeout  = 5 * time.Second
	defaultReconnectWait   = 100 * time.Millisecond
	defaultReconnectJitter = 20 * time.Millisecond
	// After one interval without an answer to a ping (1 to 2 s after the server fell silent), a
	// second connection is made. After four (4 to 5 s), the first one ends.
	defaultPingInterval = time.Second
	defaultMaxPingsOut  = 4
	// A write that blocks holds up every sender of the channel, and its pings, so it
	// must be given up within seconds.
	defaultFlusherTimeout = 5 * time.Second
)

// An Option configures how a Transport connects.
type Option func(*settings)

type settings struct {
	connect        []nats.Option
	connectTimeout time.Duration
}

// ConnectOptions are options of nats.go for every connection: TLS, credentials, a name, ping
// intervals, ReconnectWait. Handlers for errors and disconnects are called in addition to the
// link's own. Options that the link relies on cannot be changed: a connection buffers nothing while
// disconnected, a process receives its own messages, and each reconnect makes a new nats.Conn. So a
// ReconnectHandler is never called: use transport.Options.OnState.
//
// nats.PingInterval (default 1s) is the interval of pings to a server. If an answer to a ping is
// late by one interval, the link makes a second connection. After nats.MaxPingsOutstanding (default
// 4) intervals without an answer, the first connection ends. A PingInterval of 0 switches pings
// off.
func ConnectOptions(o ...nats.Option) Option {
	return func(s *settings) { s.connect = append(s.connect, o...) }
}

// ConnectTimeout bounds a call of Open. During this time Open tries again if no server can be
// reached. Default 5s.
func ConnectTimeout(d time.Duration) Option {
	return func(s *settings) { s.connectTimeout = d }
}

var errNoURL = errors.New("the URL of the NATS servers is empty (want for example nats://127.0.0.1:4222)")

var schemes = []string{"nats", "tls", "ws", "wss"}

func parseURLs(list string) ([]string, error) {
	var urls []string
	for raw := range strings.SplitSeq(list, ",") {
		raw = strings.TrimSpace(raw)
		if raw == "" {
			continue
		}
		u, err := parseURL(raw)
		if err != nil {
			return nil, err
		}
		urls = append(urls, u)
	}
	if len(urls) == 0 {
		return nil, errNoURL
	}
	return urls, nil
}

func parseURL(raw string) (string, error) {
	bad := func(why string) error {
		return fmt.Errorf("server URL %q: %s (want for example nats://127.0.0.1:4222)", redact(raw), why)
	}
	if !strings.Contains(raw, "://") {
		raw = "nats://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		var cause *url.Error // its own text repeats the URL, password and all
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return "", bad(err.Error())
	}
	if !slices.Contains(schemes, u.Scheme) {
		return "", bad(fmt.Sprintf("scheme %q is none of nats, tls, ws, wss", u.Scheme))
	}
	if u.Hostname() == "" {
		return "", bad("no host")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return "", bad("port is not 1 to 65535")
		}
	}
	return raw, nil
}

func redact(list string) string {
	parts := strings.Split(list, ",")
	for i, p := range parts {
		at := strings.LastIndexByte(p, '@')
		if at < 0 {
			continue
		}
		scheme := ""
		if j := strings.Index(p, "://"); j >= 0 {
			scheme = p[:j+3]
		}
		parts[i] = scheme + "***" + p[at:]
	}
	return strings.Join(parts, ",")
}
