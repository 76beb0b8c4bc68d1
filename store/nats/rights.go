package natsstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/store"
)

// headerStream names the stream that is expected to store the message.
const headerStream = "Nats-Expected-Stream"

// wordProbe is the end of names and subjects that are used only to check rights.
const wordProbe = "probe"

// rightsPatience bounds the wait for answers. The server refuses at once, but JetStream without a
// leader may never answer.
const rightsPatience = 2 * time.Second

type rightsCheck struct{ *streams }

// run implements shards.CheckRights.
func (c rightsCheck) run(ctx context.Context, types []string) error {
	all := probes(c.js, c.cfg.Name, types)
	create := probeCreate(c.js, c.cfg.Name)
	if !c.cfg.NoCreate {
		all = append(all, create)
	}
	failed, err := c.try(ctx, all)
	if failed == create && c.created(ctx, types) {
		err = nil // there is nothing to create
	}
	return err
}

// probes returns messages that need a member's rights and have no effect.
func probes(js, name string, types []string) []*nats.Msg {
	nowhere := name + "_" + wordProbe // no stream of the store has this name
	var all []*nats.Msg
	for _, kind := range types {
		all = append(all, message(fmt.Sprintf("%s.t.%s.%s", name, typeToken(kind), wordProbe), nil)) // no stream stores it
	}
	return append(all,
		message(keySubject(name, wordProbe), nil, headerStream, nowhere),
		message(leaseSubject(name, wordProbe), nil, headerStream, nowhere),
		message(js+"DIRECT.GET."+nowhere, nil),
		message(js+"STREAM.PURGE."+nowhere, nil))
}

// probeCreate returns a request to create a stream, which JetStream refuses because the
// configuration is missing.
func probeCreate(js, name string) *nats.Msg {
	return message(js+"STREAM.CREATE."+name+"_"+wordProbe, []byte("{}"))
}

// try sends all messages. It returns the first that was refused, and why.
func (c rightsCheck) try(ctx context.Context, all []*nats.Msg) (failed *nats.Msg, why error) {
	ctx, cancel := context.WithTimeout(ctx, min(rightsPatience, c.timeout))
	defer cancel()
	type sent struct {
		m     *nats.Msg
		r     *request
		token uint64
	}
	var waiting []sent
	for _, m := range all {
		r, token, err := c.send(ctx, m, false)
		if err != nil {
			failed, why = m, err
			break
		}
		waiting = append(waiting, sent{m, r, token})
	}
	for _, w := range waiting {
		_, err := c.await(ctx, w.r, w.token, store.ErrUnavailable)
		if failed == nil && isDenied(w.r, err) {
			failed, why = w.m, err
		}
	}
	return failed, why
}

func isDenied(r *request, err error) bool {
	if err == nil {
		return false
	}
	select {
	case <-r.done:
		return errors.Is(r.err, fs.ErrPermission)
	default:
		return false // the probe was not answered
	}
}

func (c rightsCheck) created(ctx context.Context, types []string) bool {
	for _, kind := range types {
		_, there, err := c.info(ctx, streamName(c.cfg.Name, typeToken(kind), partLog, 0))
		if err != nil || !there {
			return false
		}
	}
	return true
}
