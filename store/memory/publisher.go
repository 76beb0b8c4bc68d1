package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/store"
)

// defaultWindow is the default duplicate window of JetStream's streams.
const defaultWindow = 2 * time.Minute

// Published is a message in the server's stream.
type Published struct {
	Subject string
	ID      string // as in [store.Message]
	Data    []byte
	At      time.Time
}

// A stream holds the published messages.
type stream struct {
	subjects []string
	window   time.Duration
	messages []Published
	last     map[string]time.Time // of the messages, by id
	sent     []Published          // by Send
}

// SetStream sets the subjects and the duplicate window of the server's one stream. Subjects may
// have wildcards. For the time window after a message, the stream drops messages with the same ID.
// A window of 0 means 2 min. Before the first SetStream, the stream has all subjects. After a
// SetStream without subjects, it has none.
func (s *Server) SetStream(window time.Duration, subjects ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if window <= 0 {
		window = defaultWindow
	}
	s.stream.window, s.stream.subjects = window, slices.Clone(subjects)
}

// Published returns the messages in the stream whose subjects match, in order. The subject may have
// wildcards.
func (s *Server) Published(subject string) []Published {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver()
	return matching(s.stream.messages, subject)
}

// Sent returns the messages that [store.Publisher.Send] has sent on the subject, in order. The
// subject may have wildcards. These messages have no ID.
func (s *Server) Sent(subject string) []Published {
	s.mu.Lock()
	defer s.mu.Unlock()
	return matching(s.stream.sent, subject)
}

func matching(all []Published, subject string) (found []Published) {
	for _, m := range all {
		if matches(subject, m.Subject) {
			m.Data = slices.Clone(m.Data)
			found = append(found, m)
		}
	}
	return found
}

// matches reports whether a subject matches a pattern. In the pattern, the token * stands for one
// token, and > at the end for one or more tokens.
func matches(pattern, subject string) bool {
	for {
		want, wants, more := strings.Cut(pattern, ".")
		have, haves, left := strings.Cut(subject, ".")
		switch {
		case want == ">":
			return true
		case want != "*" && want != have, more != left:
			return false
		case !more:
			return true
		}
		pattern, subject = wants, haves
	}
}

// CheckSubject implements [store.Publisher].
func (c *Client) CheckSubject(subject string) error { return store.CheckSubject(subject) }

// Publish implements [store.Publisher].
func (c *Client) Publish(ctx context.Context, m store.Message) error {
	const op = "publish"
	if err := errors.Join(store.CheckMessageID(m.ID), c.CheckSubject(m.Subject)); err != nil {
		return fail(op, m.Subject, err)
	}
	if len(m.Data) > store.MaxValue {
		return fail(op, m.Subject, fmt.Errorf("%w: %d bytes: want at most %d", store.ErrTooLarge, len(m.Data), store.MaxValue))
	}
	m.Data = slices.Clone(m.Data)
	return fail(op, m.Subject, c.do(ctx, Op{Name: op, Key: m.Subject, Write: true}, func() error {
		return c.server.stream.publish(m, c.server.now().Add(c.server.ahead))
	}))
}

// Send implements [store.Publisher].
func (c *Client) Send(ctx context.Context, subject string, data []byte) error {
	const op = "send"
	if err := c.CheckSubject(subject); err != nil {
		return fail(op, subject, err)
	}
	return fail(op, subject, c.do(ctx, Op{Name: op, Key: subject}, func() error {
		s := c.server
		s.stream.sent = append(s.stream.sent, Published{Subject: subject, Data: slices.Clone(data), At: s.now().Add(s.ahead)})
		return nil
	}))
}

func (s *stream) publish(m store.Message, now time.Time) error {
	if !slices.ContainsFunc(s.subjects, func(pattern string) bool { return matches(pattern, m.Subject) }) {
		return store.ErrNoStream
	}
	last, there := s.last[m.ID]
	switch {
	case there && now.Sub(last) < s.window:
		return nil
	case there && !m.First.IsZero() && !last.Before(m.First.Add(-store.ClockMargin)): // the window has forgotten it
		return nil
	}
	s.last[m.ID] = now
	s.messages = append(s.messages, Published{m.Subject, m.ID, m.Data, now})
	return nil
}
