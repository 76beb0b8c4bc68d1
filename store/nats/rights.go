package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/store"
)

// headerStream names the stream that is to take a message.
const headerStream = "Nats-Expected-Stream"

// wordProbe ends what is tried and is nowhere.
const wordProbe = "probe"

// rightsPatience bounds the wait for answers of CheckRights: a refusal comes at once, and JetStream
// without a leader may not answer.
const rightsPatience = 2 * time.Second

// CheckRights tries whether the connection's user may do all that a member does that hosts these
// durable types, in one round trip and without an effect: it reads and writes what is nowhere, or expects
// another stream. It fails with ErrUnavailable and names the right that the server refused. A server that
// does not answer is no error.
func (s *Store) CheckRights(ctx context.Context, types ...string) error {
	const op = "check rights"
	all := s.probes(types)
	create := s.probeCreate()
	if !s.streams.cfg.NoCreate {
		all = append(all, create)
	}
	failed, err := s.try(ctx, all)
	if failed == create && s.streams.created(ctx, types) {
		err = nil // there is nothing to create
	}
	return fail(op, strings.Join(types, ","), err)
}

// probes are messages that need a member's rights and have no effect.
func (s *Store) probes(types []string) []*nats.Msg {
	name := s.streams.cfg.Name
	nowhere := name + "_" + wordProbe // streams of the store have other names
	var all []*nats.Msg
	for _, kind := range types {
		all = append(all, message(fmt.Sprintf("%s.t.%s.%s", name, typeToken(kind), wordProbe), nil)) // no stream takes it
	}
	return append(all,
		message(keySubject(name, wordProbe), nil, headerStream, nowhere),
		message(leaseSubject(name, wordProbe), nil, headerStream, nowhere),
		message("$JS.API.DIRECT.GET."+nowhere, nil),
		message("$JS.API.STREAM.PURGE."+nowhere, nil))
}

// probeCreate asks for a stream with no configuration, which is refused.
func (s *Store) probeCreate() *nats.Msg {
	return message("$JS.API.STREAM.CREATE."+s.streams.cfg.Name+"_"+wordProbe, []byte("{}"))
}

// try sends messages and returns the first that the user may not send, and why.
func (s *Store) try(ctx context.Context, all []*nats.Msg) (failed *nats.Msg, why error) {
	ctx, cancel := context.WithTimeout(ctx, min(rightsPatience, s.streams.timeout))
	defer cancel()
	type sent struct {
		m     *nats.Msg
		r     *request
		token uint64
	}
	var waiting []sent
	for _, m := range all {
		r, token, err := s.streams.send(ctx, m, false)
		if err != nil {
			failed, why = m, err
			break
		}
		waiting = append(waiting, sent{m, r, token})
	}
	for _, w := range waiting {
		_, err := s.streams.await(ctx, w.r, w.token, store.ErrUnavailable)
		if failed == nil && isDenied(w.r, err) {
			failed, why = w.m, err
		}
	}
	return failed, why
}

// isDenied reports whether a request has ended with err because the server refused its subject.
func isDenied(r *request, err error) bool {
	if err == nil {
		return false
	}
	select {
	case <-r.done:
		return errors.Is(r.err, errDenied)
	default:
		return false // it was not answered
	}
}

// created reports whether all these types have their streams.
func (s *streams) created(ctx context.Context, types []string) bool {
	for _, kind := range types {
		_, there, err := s.info(ctx, streamName(s.cfg.Name, typeToken(kind), kindLog, 0))
		if err != nil || !there {
			return false
		}
	}
	return true
}
