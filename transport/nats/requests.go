package natstransport

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/transport"
)

var _ transport.Requester = (*Transport)(nil)

const (
	headerContentType = "Content-Type"
	headerTimeout     = "Shard-Timeout"
	brokerHeaders     = "Nats-"
)

// anyCaller is the identity of all callers of a broker without permissions.
const anyCaller = "any"

// requestPrefix returns the beginning of requests' subjects, up to the caller's identity.
func requestPrefix(cluster string) string { return "sh." + cluster + ".g." }

func inboxOf(caller string) string {
	if caller == anyCaller {
		return nats.InboxPrefix
	}
	return nats.InboxPrefix + caller + "."
}

// mayAnswer reports whether a reply subject is in the caller's inbox. Otherwise a caller could make
// the host, with more rights, publish to JetStream's API or another inbox.
func mayAnswer(caller, reply string) bool {
	inbox := inboxOf(caller)
	return len(reply) > len(inbox) && strings.HasPrefix(reply, inbox) && !strings.ContainsAny(reply, "*> \t\r\n")
}

type requests struct {
	options transport.RequestOptions
	faults  *faults
	subs    []*nats.Subscription

	mu      sync.Mutex
	closed  bool
	running int            // running handlers
	callers map[string]int // running handlers by the caller's name
	wg      sync.WaitGroup
}

// beginLocked takes a place for a handler, or returns false. One caller gets at most half of the
// places, so that a flood leaves places to others.
func (s *requests) beginLocked(caller string) bool {
	limit := max(s.options.Limit, 1)
	if s.running >= limit || s.callers[caller] >= (limit+1)/2 {
		return false
	}
	if s.callers == nil {
		s.callers = map[string]int{}
	}
	s.running++
	s.callers[caller]++
	return true
}

func (s *requests) end(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.callers[caller]--; s.callers[caller] == 0 {
		delete(s.callers, caller)
	}
}

func (s *requests) take(m *nats.Msg) {
	words := strings.Split(strings.TrimPrefix(m.Subject, requestPrefix(s.options.Cluster)), ".")
	if len(words) < 3 || transport.CheckName("caller", words[0]) != nil {
		return // a subject without a caller
	}
	if caller := words[0]; m.Reply != "" && !mayAnswer(caller, m.Reply) {
		// Handle is not called either, because a caller without an answer would call again.
		s.faults.warnOf(caller, "request refused: its reply subject is not the caller's inbox", "subject", bounded.Text(m.Subject),
			"reply", bounded.Text(m.Reply), "want", inboxOf(caller)+">")
		return
	}
	r := &transport.Request{
		Caller: words[0], Kind: words[1], Method: words[2],
		ContentType: m.Header.Get(headerContentType), Timeout: m.Header.Get(headerTimeout), Body: m.Data,
		Header: otherHeaders(m.Header),
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
	// For an id with unescaped dots, the error of UnescapeID names the right form.
	r.ID, r.IDErr = transport.UnescapeID(strings.Join(words[3:], "."))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if !s.beginLocked(r.Caller) {
		s.options.Refuse(r)
		return
	}
	s.wg.Go(func() {
		defer s.end(r.Caller)
		s.options.Handle(r)
	})
}

// otherHeaders returns the headers except those of requests and of the broker.
func otherHeaders(all nats.Header) map[string][]string {
	if len(all) == 0 {
		return nil
	}
	other := make(map[string][]string, len(all))
	for key, values := range all { //arch:order-free it makes another map
		if key != headerContentType && key != headerTimeout && !strings.HasPrefix(key, brokerHeaders) {
			other[key] = values
		}
	}
	return other
}

// drain ends the subscriptions, and waits until every request that the server has sent here is
// taken: the server sends it to no other member. A server that stalls delays it by closeTimeout.
func (s *requests) drain(nc *nats.Conn) {
	// Without a connection nothing comes. The next connection would make subscriptions again that
	// are only drained.
	defer s.unsubscribe()
	if !nc.IsConnected() {
		return
	}
	var taken sync.WaitGroup
	for _, sub := range s.subs {
		taken.Add(1)
		done := sync.OnceFunc(taken.Done)
		sub.SetClosedHandler(func(string) { done() })
		if sub.Drain() != nil { // it has ended already, with its connection
			done()
		}
	}
	all := make(chan struct{})
	go func() { // ends at the latest when the connection is closed
		taken.Wait()
		close(all)
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-all:
	case <-timer.C:
	}
}

func (s *requests) unsubscribe() {
	for _, sub := range s.subs {
		_ = sub.Unsubscribe() // fails if it has ended
	}
}

// close waits for the handlers. Requests that come later are dropped.
func (s *requests) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
}

// faults logs failed requests: for each caller the first, second, fourth and so on.
type faults struct {
	log *slog.Logger

	mu sync.Mutex
	of map[string]uint64 // number of failed requests by caller; "" stands for no caller and callers beyond maxFaulty
}

// maxFaulty bounds the callers counted separately.
const maxFaulty = 256

func (f *faults) warn(text string, args ...any) { f.warnOf("", text, args...) }

func (f *faults) warnOf(caller, text string, args ...any) {
	f.mu.Lock()
	if f.of == nil {
		f.of = map[string]uint64{}
	}
	if f.of[caller] == 0 && len(f.of) >= maxFaulty {
		caller = ""
	}
	f.of[caller]++
	n := f.of[caller]
	f.mu.Unlock()
	if powerOfTwo(n) {
		f.log.Warn(text, append(args, "count", n)...)
	}
}
