package natstransport

import (
	"log/slog"
	"sync"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// tellAfter is how long channels may be without connections before that is logged. A restart of a
// server takes less time, and is logged in one line when it is over.
const tellAfter = time.Second

// An outage collects the reports of a link's channels about their connections, so that the end of a
// server is logged once and not for each channel. It is safe for concurrent use.
type outage struct {
	log *slog.Logger

	mu       sync.Mutex
	down     map[transport.Channel]bool
	channels int       // that were down in this outage
	since    time.Time // the first one
	server   string    // behind it
	cause    error     // of its end
	reach    string    // why the last attempt to connect failed
	told     bool
	timer    *time.Timer
	closed   bool
}

// lost records the end of a channel's connection.
func (o *outage) lost(ch transport.Channel, server string, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.down) == 0 {
		o.down = map[transport.Channel]bool{}
		o.channels, o.since, o.server, o.cause, o.reach, o.told = 0, time.Now(), server, cause, "", false
		o.timer = time.AfterFunc(tellAfter, o.tell)
	}
	o.channels++
	o.down[ch] = true
}

// tell logs that the outage lasts.
func (o *outage) tell() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.told || len(o.down) == 0 {
		return
	}
	o.told = true
	o.log.Warn("broker connections lost", "server", o.server, "cause", o.cause, "channels", len(o.down),
		"after", time.Since(o.since).Round(time.Millisecond), "reach", o.reach)
}

// failed records why an attempt to connect failed. While an outage lasts, each new reason is
// logged.
func (o *outage) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := explain(err).Error()
	if text == o.reach {
		return
	}
	o.reach = text
	if o.told && !o.closed {
		o.log.Warn("broker out of reach", "cause", text)
	}
}

// restored records a channel's new connection.
func (o *outage) restored(ch transport.Channel, server string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.down, ch)
	if len(o.down) > 0 || o.closed {
		return
	}
	o.timer.Stop()
	text := "broker connections lost and restored"
	if o.told {
		text = "broker connections restored"
	}
	o.log.Info(text, "from", o.server, "to", server, "cause", o.cause, "channels", o.channels,
		"after", time.Since(o.since).Round(time.Millisecond))
}

// close stops the logging of outages.
func (o *outage) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
	}
}
