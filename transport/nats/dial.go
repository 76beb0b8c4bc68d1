package natstransport

import (
	"context"
	"net"
	"sync"

	"github.com/nats-io/nats.go"
)

// A dialer makes the wires of one attempt to connect and cuts them when the
// attempt's context ends, which nats.go by itself would not look at.
type dialer struct {
	ctx  context.Context // of the attempt; the dialer lives no longer
	opts *nats.Options   // the user's dialers

	mu   sync.Mutex
	stop []func() bool
	last *wire
	err  error // of the last dial: nats.go reports a refused one as "no servers"
}

// use makes o dial through d.
func (d *dialer) use(o *nats.Options) {
	copied := *o
	d.opts = &copied
	if o.InProcessServer != nil {
		o.InProcessServer = d
		return
	}
	o.CustomDialer = d
}

// Dial is nats.CustomDialer.
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

// InProcessConn is nats.InProcessConnProvider.
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

// wire returns the last one dialled: the one of the established connection.
func (d *dialer) wire() *wire {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// release ends the attempt: from now on its context cuts nothing.
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
