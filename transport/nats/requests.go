package natstransport

import (
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/transport"
)

var _ transport.Requester = (*Transport)(nil)

// Headers of a request and its answer.
const (
	headerContentType = "Content-Type"
	headerTimeout     = "Shard-Timeout"
)

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
	// An id with dots that were not escaped is refused by an error that names the right form.
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
