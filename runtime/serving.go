package shard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// serveTimeout bounds telling the broker whether this member serves.
const serveTimeout = 5 * time.Second

// serving tells the broker whether processes without a table may be sent here.
type serving struct {
	wished atomic.Bool // the latest wish
	mu     sync.Mutex  // held while the broker is told, so that it hears the last wish last
}

// set tells the broker whether to send processes here. It does not wait for the broker.
func (s *serving) set(pl *plane, on bool) {
	s.wished.Store(on)
	pl.wg.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		ctx, cancel := context.WithTimeout(pl.ctx, serveTimeout)
		defer cancel()
		on := s.wished.Load()
		if err := pl.link().Serve(ctx, on); err != nil && !pl.closed() {
			pl.log.Warn("broker not told whether clients are served here", "serve", on, "err", err)
		}
	})
}
