package shard

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// serveTimeout bounds the message to the broker that says whether this member serves.
const serveTimeout = 5 * time.Second

// serving records whether the broker may direct processes that have no table to this
// member.
type serving struct {
	wished atomic.Bool
	mu     sync.Mutex // held while the broker is informed, so that the latest value is sent last
}

// announce sends the latest value to the broker, and waits for it. It reports false if the broker
// may not know of it yet. A broker that refuses it knows.
func (s *serving) announce(ctx context.Context, link transport.Link, log *slog.Logger) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.wished.Load()
	try, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	err := link.Serve(try, on)
	if err != nil && ctx.Err() == nil {
		log.Warn("serving of clients not switched", "serve", on, "err", err)
	}
	return err == nil || try.Err() == nil
}
