package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/store"
)

// headerID is the header with a message's id for the stream's duplicate window.
const headerID = "Nats-Msg-Id"

// A publisher publishes to streams that are not the store's.
type publisher struct {
	*writer

	mu    sync.Mutex
	looks map[string]*look // by subject
	known []outlet

	asks sync.Mutex // held while a stream's duplicate window is asked for
}

// An outlet is a stream to which messages are published.
type outlet struct {
	name     string
	subjects []string
	window   time.Duration // duplicate window
	at       time.Time     // time of the answer, by the server's clock
	asked    time.Time     // time of the request, by this process's clock
}

// knownFor is how long an answer about a stream's duplicate window is used. It limits requests to
// the server when many messages wait, as after an outage.
const knownFor = time.Second

// Publish implements [store.Publisher]. On the server, a message's id is Config.Name, a slash and
// the message's ID.
//
// The server's duplicate window counts from the first copy of a message. So Publish first looks for
// a message that may be older than half of the window among the subject's messages since First. If
// the stream has changed the message's subject or deleted the message, as work-queue and interest
// streams do, it is published again.
func (s *Store) Publish(ctx context.Context, m store.Message) error {
	const op = "publish"
	if err := errors.Join(store.CheckMessageID(m.ID), s.CheckSubject(m.Subject)); err != nil {
		return fail(op, m.Subject, err)
	}
	return fail(op, m.Subject, s.publisher.publish(ctx, m))
}

// Send implements [store.Publisher].
func (s *Store) Send(ctx context.Context, subject string, data []byte) error {
	const op = "send"
	p := &s.publisher
	err := s.CheckSubject(subject)
	if err == nil {
		err = p.checkPayload(data)
	}
	if err == nil && ctx.Err() != nil {
		err = unavailable(ctx.Err())
	}
	if err == nil {
		if sent := p.nc.PublishMsg(message(subject, data)); sent != nil {
			err = unsent(sent)
		}
	}
	return fail(op, subject, err)
}

// CheckSubject implements [store.Publisher]. It refuses subjects that begin with Config.Name and a
// dot, because messages there would damage logs.
func (s *Store) CheckSubject(subject string) error {
	if name := s.publisher.name; strings.HasPrefix(subject, name+".") {
		return fmt.Errorf("%w: subject %q: the store %s uses it (want one that does not begin with %s.)", store.ErrBadKey, subject, name, name)
	}
	return store.CheckSubject(subject)
}

func (p *publisher) publish(ctx context.Context, m store.Message) error {
	if err := p.checkPayload(m.Data); err != nil {
		return err
	}
	id := p.name + "/" + m.ID
	if !m.First.IsZero() {
		there, err := p.has(ctx, m.Subject, id, m.First.Add(-store.ClockMargin))
		if there || err != nil {
			return err
		}
	}
	got, err := p.ask(ctx, message(m.Subject, m.Data, headerID, id), false, store.ErrUncertain)
	if errors.Is(err, errNobody) {
		stream, err := p.streamOf(ctx, m.Subject)
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: stream %s: %w", store.ErrUnavailable, stream, errNoLeader)
	}
	if err != nil {
		return err
	}
	var ack struct {
		Stream string    `json:"stream"`
		Error  *apiError `json:"error"`
	}
	switch err := json.Unmarshal(got[0].Data, &ack); {
	case err == nil && ack.Error != nil:
		return ack.Error.cause(ack.Stream)
	case err != nil || ack.Stream == "":
		return fmt.Errorf("%w: the answer on %s is no acknowledgement of a stream (does a program answer on the subject?)", store.ErrUncertain, m.Subject)
	}
	return nil
}

// streamOf returns the name of the stream that has the subject.
func (p *publisher) streamOf(ctx context.Context, subject string) (string, error) {
	var found struct {
		Streams []string `json:"streams"`
	}
	err := p.inquire(ctx, "STREAM.NAMES", struct {
		Subject string `json:"subject"`
	}{subject}, &found)
	switch {
	case err != nil:
		return "", repeatableError(err, "of subject "+subject)
	case len(found.Streams) == 0:
		return "", store.ErrNoStream
	}
	return found.Streams[0], nil
}

// has reports whether the stream has a message with the id, even if the duplicate window has
// forgotten it. The message was not published before the time since.
func (p *publisher) has(ctx context.Context, subject, id string, since time.Time) (bool, error) {
	to, ok := p.outlet(subject)
	if !ok {
		var err error
		if to, err = p.find(ctx, subject); err != nil {
			return false, err
		}
	}
	if to.at.Add(time.Since(to.asked)).Sub(since) < to.window/2 {
		return false, nil
	}
	return p.look(ctx, to.name, subject, id, since)
}

// outlet returns the stream of a subject, if an answer of the last second names it.
func (p *publisher) outlet(subject string) (outlet, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.known {
		if time.Since(o.asked) < knownFor && slices.ContainsFunc(o.subjects, func(pattern string) bool { return covers(pattern, subject) }) {
			return o, true
		}
	}
	return outlet{}, false
}

// find asks the server for the stream of a subject. It asks for one subject at a time.
func (p *publisher) find(ctx context.Context, subject string) (outlet, error) {
	p.asks.Lock()
	defer p.asks.Unlock()
	if o, ok := p.outlet(subject); ok {
		return o, nil
	}
	if ctx.Err() != nil {
		return outlet{}, unavailable(ctx.Err())
	}
	stream, err := p.streamOf(ctx, subject)
	if err != nil {
		return outlet{}, err
	}
	asked := time.Now()
	var info struct {
		Config struct {
			Subjects []string      `json:"subjects"`
			Window   time.Duration `json:"duplicate_window"`
		} `json:"config"`
		At time.Time `json:"ts"`
	}
	if err := p.inquire(ctx, "STREAM.INFO."+stream, nil, &info); err != nil {
		return outlet{}, repeatableError(err, stream)
	}
	o := outlet{stream, info.Config.Subjects, info.Config.Window, info.At, asked}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = append(slices.DeleteFunc(p.known, func(k outlet) bool { return time.Since(k.asked) >= knownFor || k.name == stream }), o)
	return o, nil
}

// covers reports whether a subject matches a pattern, which may have wildcards.
func covers(pattern, subject string) bool {
	for {
		p, restP, moreP := strings.Cut(pattern, ".")
		s, restS, moreS := strings.Cut(subject, ".")
		switch {
		case p == ">":
			return true
		case p != "*" && p != s, moreP != moreS:
			return false
		case !moreP:
			return true
		}
		pattern, subject = restP, restS
	}
}

// A look searches one subject for the ids of messages that may be stored already. One reading of
// the subject runs at a time, and searches for all ids that wait when it begins.
type look struct {
	turn  chan struct{} // has room for one caller, which reads
	users int
	next  *reading // the reading that has not begun; nil means none
}

type reading struct {
	since time.Time
	found map[string]bool // by wanted id
	ended bool
	err   error
}

// look reports whether the subject has a message with the id that is not older than since.
func (p *publisher) look(ctx context.Context, stream, subject, id string, since time.Time) (bool, error) {
	p.mu.Lock()
	l := p.looks[subject]
	if l == nil {
		l = &look{turn: make(chan struct{}, 1)}
		p.looks[subject] = l
	}
	l.users++
	r := l.next
	if r == nil {
		r = &reading{since: since, found: map[string]bool{}}
		l.next = r
	}
	r.found[id] = false
	if since.Before(r.since) {
		r.since = since
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(p.looks, subject)
		}
	}()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return false, unavailable(ctx.Err())
	}
	if !r.ended {
		p.mu.Lock()
		l.next = nil // callers that come now wait for the next reading
		p.mu.Unlock()
		r.err = p.read(ctx, stream, subject, r)
		r.ended = true
	}
	return r.found[id], r.err
}

// read searches the leader for r's ids, because another replica may lag.
func (p *publisher) read(ctx context.Context, stream, subject string, r *reading) error {
	missing := len(r.found)
	for get := (getRequest{NextFor: subject, StartTime: &r.since}); missing > 0; {
		m, err := p.leaderHas(ctx, stream, get)
		if m == nil || err != nil {
			return err
		}
		if found, wanted := r.found[m.header.Get(headerID)]; wanted && !found {
			r.found[m.header.Get(headerID)] = true
			missing--
		}
		get = getRequest{NextFor: subject, Seq: m.seq + 1}
	}
	return nil
}
