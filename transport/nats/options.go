package natstransport

import (
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
