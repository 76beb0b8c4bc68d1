package shard

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// serveTimeout bounds telling the broker whether this member serves.
const serveTimeout = 5 * time.Second

// serving is whether the broker may send processes here that have no table.
type serving struct {
	wished atomic.Bool
	mu     sync.Mutex // held while the broker is told, so that it hears the latest wish last
}

// announce tells the broker the latest wish. It waits for the broker.
func (s *serving) announce(ctx context.Context, link transport.Link, log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.wished.Load()
	try, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	if err := link.Serve(try, on); err != nil && ctx.Err() == nil {
		log.Warn("broker not told whether clients are served here", "serve", on, "err", err)
	}
}
