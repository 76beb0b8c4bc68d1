package natstransport

import (
	"log/slog"
	"sync"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// tellAfter is how long channels may be down before an outage is logged. A restart of the server is
// shorter, and is logged in one line at its end.
const tellAfter = time.Second

// An outage combines the reports of a link's channels, so that a server's end is logged once. It is
// safe for concurrent use.
type outage struct {
	log *slog.Logger

	mu       sync.Mutex
	down     map[transport.Channel]bool
	channels int       // channels that were down in this outage
	since    time.Time // when the first channel went down
	server   string    // server of that channel
	cause    error     // why its connection ended
	reach    string    // why the last attempt to connect failed
	told     bool
	timer    *time.Timer
	closed   bool
}

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

// failed logs each new cause during a logged outage.
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

func (o *outage) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
	}
}
