package natstransport

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/transport"
)

var _ transport.Requester = (*Transport)(nil)

// Headers of a request and its answer.
const (
	headerContentType = "Content-Type"
	headerTimeout     = "Shard-Timeout"
)

// ServeRequests takes requests on a connection of its own, so that foreign load
// delays no call between members. The connection is made anew when it breaks.
func (t *Transport) ServeRequests(ctx context.Context, o transport.RequestOptions) (stop func(), err error) {
	options, err := t.natsOptions()
	if err != nil {
		return nil, fmt.Errorf("serve requests: %w", err)
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	options.AllowReconnect, options.MaxReconnect = true, -1
	options.Timeout = t.settings.connectTimeout
	options.SkipSubjectValidation = false // reply subjects are strangers'
	options.Name = "shardgen " + o.Cluster + " " + o.Name + " requests"
	var faults atomic.Uint64
	options.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if n := faults.Add(1); powerOfTwo(n) {
			log.Error("requests", "err", bounded.Error(err), "count", n)
		}
	}
	nc, err := options.Connect()
	if err != nil {
		return nil, fmt.Errorf("serve requests: %s: %w", redact(t.url), err)
	}
	s := &requests{options: o, slots: make(chan struct{}, max(o.Limit, 1))}
	for _, kind := range o.Kinds {
		if _, err := nc.QueueSubscribe("sh."+o.Cluster+".gw."+kind+".>", gatewayQueue, s.take); err != nil {
			nc.Close()
			return nil, fmt.Errorf("serve requests: %s: %w", redact(t.url), err)
		}
	}
	// nats.go insists on a deadline, which the context of a node's Run has not.
	ctx, cancel := context.WithTimeout(ctx, t.settings.connectTimeout)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		nc.Close()
		return nil, fmt.Errorf("serve requests: %s: %w", redact(t.url), err)
	}
	return func() {
		_ = nc.Drain() // requests under way are still answered
		s.close()
		nc.Close()
	}, nil
}

// requests hands requests to their handlers.
type requests struct {
	options transport.RequestOptions
	slots   chan struct{} // of running handlers

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

func (s *requests) take(m *nats.Msg) {
	words := strings.Split(strings.TrimPrefix(m.Subject, "sh."+s.options.Cluster+".gw."), ".")
	if len(words) < 2 {
		return // nobody's subject
	}
	r := &transport.Request{
		Kind: words[0], Method: words[1],
		ContentType: m.Header.Get(headerContentType), Timeout: m.Header.Get(headerTimeout), Body: m.Data,
	}
	if m.Reply != "" {
		r.Answer = func(header map[string]string, body []byte) error {
			answer := nats.NewMsg(m.Reply)
			for key, value := range header { //arch:order-free headers are a map, too
				answer.Header.Set(key, value)
			}
			answer.Data = body
			return m.RespondMsg(answer)
		}
	}
	// Dots in an id that nobody escaped stand for themselves.
	r.ID, r.IDErr = transport.UnescapeID(strings.Join(words[2:], "."))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	select {
	case s.slots <- struct{}{}:
		s.wg.Go(func() {
			defer func() { <-s.slots }()
			s.options.Handle(r)
		})
	default:
		s.options.Refuse(r)
	}
}

func (s *requests) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
}
