package natstransport

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Defaults of a connection. Those of nats.go that are not named here stand.
const (
	defaultConnectTimeout  = 5 * time.Second
	defaultReconnectWait   = 100 * time.Millisecond
	defaultReconnectJitter = 20 * time.Millisecond
	// A ping that is not answered for an interval (1 to 2 s after the server fell
	// silent) has another connection made beside this one; four (4 to 5 s) end it.
	defaultPingInterval = time.Second
	defaultMaxPingsOut  = 4
	// A write that blocks holds up every sender of the channel, and its pings, so it
	// must be given up within seconds.
	defaultFlusherTimeout = 5 * time.Second
)

// An Option changes how a Transport connects.
type Option func(*settings)

type settings struct {
	connect        []nats.Option
	connectTimeout time.Duration
}

// ConnectOptions passes options on to nats.go for every connection: TLS, credentials, a
// name, ping intervals, ReconnectWait. Handlers for errors and disconnects are called
// beside the link's own. The options that the link relies on cannot be changed: no
// buffering while disconnected, own messages echoed, and a new nats.Conn for each
// reconnect (so a ReconnectHandler is never called: use transport.Options.OnState).
//
// nats.PingInterval (default 1s) is how often a server is pinged, and after how long
// without an answer another connection is made beside the first. After
// nats.MaxPingsOutstanding (default 4) intervals without an answer the connection
// ends. A PingInterval of 0 switches pings off.
func ConnectOptions(o ...nats.Option) Option {
	return func(s *settings) { s.connect = append(s.connect, o...) }
}

// ConnectTimeout bounds Open as a whole. Default 5s; Open retries a server that
// cannot be reached until then.
func ConnectTimeout(d time.Duration) Option {
	return func(s *settings) { s.connectTimeout = d }
}

var errNoURL = errors.New("the URL of the NATS servers is empty (want for example nats://127.0.0.1:4222)")

var schemes = []string{"nats", "tls", "ws", "wss"}

// parseURLs splits and checks a comma-separated list of server URLs.
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

// redact hides user, password and token of each URL in the list.
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
