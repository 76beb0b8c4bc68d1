package natstransport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/transport"
)

const (
	// outpostIdle is how long a connection to another server stays open after its last use.
	outpostIdle = 5 * time.Second
	// outpostDial bounds an attempt to connect to one server.
	outpostDial = time.Second
	// outpostAgain is the pause before the next attempt at a server that was not the wanted one, or
	// could not be reached.
	outpostAgain = 2 * time.Second
)

// A scout asks servers other than that of Control whether anybody listens to a subject. It connects
// to a server when it is first asked about that server, and keeps the connection.
type scout struct {
	control  *channel
	mu       sync.Mutex
	outposts map[string]*outpost // by URL
	token    uint64
	closed   bool
}

type outpost struct {
	url  string
	busy chan struct{} // holds a token while the outpost is used
	// The scout's mu guards these.
	server string    // the instance that was last found at the URL; empty if it could not be asked
	again  time.Time // when the URL may be tried again for another instance
	open   bool      // there is a connection
	// The holder of busy's token owns these.
	conn *connection
	idle *time.Timer
}

var errNoServer = errors.New("the wanted server is not known, or cannot be reached")

func (s *scout) ask(ctx context.Context, at func(server string) bool, to transport.Address, payload []byte) (listens bool, err error) {
	for _, o := range s.candidates(at) {
		if conn, ok := s.enter(ctx, o, at); ok {
			listens, err := s.askAt(ctx, conn, to, payload)
			if err != nil {
				conn.end()
				o.conn = nil
			}
			s.leave(o, err == nil)
			return listens, err
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	return false, errNoServer
}

// candidates returns the URLs where the wanted server may be, the likeliest first. It forgets URLs
// that are no longer announced.
func (s *scout) candidates(at func(server string) bool) (all []*outpost) {
	c := s.control.connection.Load()
	if c == nil || s.control.options.InProcessServer != nil { // no other server can be reached
		return nil
	}
	urls := s.control.servers()
	for _, u := range c.nc.DiscoveredServers() {
		urls = append(urls, s.control.withUser(u))
	}
	own := c.nc.ConnectedUrl()
	slices.Sort(urls)
	urls = slices.DeleteFunc(slices.Compact(urls), func(u string) bool { return u == own })
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.outposts, func(url string, o *outpost) bool { return !o.open && !slices.Contains(urls, url) })
	for _, u := range urls {
		o := s.outposts[u]
		if o == nil {
			o = &outpost{url: u, busy: make(chan struct{}, 1)}
			s.outposts[u] = o
		}
		switch {
		case o.server != "" && at(o.server):
			all = slices.Insert(all, 0, o)
		case !now.Before(o.again):
			all = append(all, o)
		}
	}
	return all
}

// enter connects to an outpost's server, and reports whether the function at returns true for the
// server. If so, the caller must call leave.
func (s *scout) enter(ctx context.Context, o *outpost, at func(server string) bool) (*connection, bool) {
	select {
	case o.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	if o.idle != nil {
		o.idle.Stop()
	}
	if o.conn == nil || o.conn.isOver() {
		dial, cancel := context.WithTimeout(ctx, outpostDial)
		o.conn, _ = s.control.dialOf(dial, []string{o.url}, true, true)
		cancel()
	}
	if o.conn == nil || !at(o.conn.server) {
		s.leave(o, false)
		return nil, false
	}
	return o.conn, true
}

// leave gives back an outpost. The outpost's connection ends after outpostIdle without use or, if
// useful is false, at once.
func (s *scout) leave(o *outpost, useful bool) {
	s.mu.Lock()
	o.open = useful && !s.closed
	o.again = time.Now().Add(outpostAgain)
	if o.server = ""; o.conn != nil {
		o.server = o.conn.server
	}
	open := o.open
	s.mu.Unlock()
	switch {
	case open:
		o.idle = time.AfterFunc(outpostIdle, func() {
			select {
			case o.busy <- struct{}{}:
				s.leave(o, false)
			default: // used again
			}
		})
	case o.conn != nil:
		o.conn.end()
		o.conn = nil
	}
	<-o.busy
}

// askAt sends a message to a member, with a reply subject for the server's report. The server
// answers in order, so a report comes before the flush returns, or not at all.
func (s *scout) askAt(ctx context.Context, conn *connection, to transport.Address, payload []byte) (listens bool, err error) {
	r, err := s.control.routes.route(transport.Peer{Address: to})
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	s.token++
	reply := replySubject(r.reply, s.token)
	s.mu.Unlock()
	reports := make(chan *nats.Msg, 1)
	sub, err := conn.nc.ChanSubscribe(reply, reports)
	if err != nil {
		return false, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := conn.nc.PublishRequest(r.subject, reply, payload); err != nil {
		return false, err
	}
	if err := conn.flush(ctx); err != nil {
		return false, err
	}
	if err := conn.nc.LastError(); err != nil { // such as a missing right
		return false, err
	}
	select {
	case m := <-reports:
		return len(m.Data) != 0 || m.Header.Get(statusHeader) != noResponders, nil
	default:
		return true, nil
	}
}

func (s *scout) close() {
	s.mu.Lock()
	s.closed = true
	all := make([]*outpost, 0, len(s.outposts))
	for _, o := range s.outposts {
		all = append(all, o)
	}
	s.mu.Unlock()
	for _, o := range all {
		o.busy <- struct{}{} // ask ends with the link's context
		if o.idle != nil {
			o.idle.Stop()
		}
		s.leave(o, false)
	}
}

// Ask implements [transport.Scout]. It keeps the connection to the other server for outpostIdle.
func (l *link) Ask(ctx context.Context, at func(server string) bool, to transport.Address, payload []byte) (listens bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	listens, err = l.scout.ask(ctx, at, to, payload)
	if err != nil {
		return false, fmt.Errorf("ask about %v: %w", to, err)
	}
	return listens, nil
}
