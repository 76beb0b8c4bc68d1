package main

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// publishes writes each entity's state by hand to a subject of its own, by
// compare-and-set on its last write, as one would without this project.
type publishes struct {
	conn *nats.Conn
	js   jetstream.JetStream
	last []uint64 // by entity; each has one caller
}

func newPublishes(ctx context.Context, url string, replicas int) (*publishes, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(2*manyCallers))
	if err == nil {
		err = createStream(ctx, js, jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw.>"}, MaxMsgsPerSubject: 1, Replicas: replicas, Storage: jetstream.FileStorage})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &publishes{conn: conn, js: js, last: make([]uint64, entities)}, nil
}

// createStream tries until the servers have a leader.
func createStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) (err error) {
	for range 30 {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err = js.CreateStream(try, c)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// publish writes an entity's state and waits for the acknowledgement.
func (p *publishes) publish(entity int) error {
	m := &nats.Msg{Subject: "raw." + strconv.Itoa(entity), Data: make([]byte, commitBytes)}
	future, err := p.js.PublishMsgAsync(m, jetstream.WithExpectLastSequencePerSubject(p.last[entity]))
	if err != nil {
		return err
	}
	select {
	case ack := <-future.Ok():
		p.last[entity] = ack.Sequence
		return nil
	case err := <-future.Err():
		return err
	}
}

func (p *publishes) lone() contestant {
	return contestant{"publish", func(d time.Duration) (measure, error) {
		return load(1, d, func(w, i int) error { return p.publish(pick(w, i, entities)) })
	}}
}

// many has so many callers, each with entities of its own, so that none waits for another.
func (p *publishes) many(n int) contestant {
	return contestant{"publishes", func(d time.Duration) (measure, error) {
		return loadAfter(warmCalls, n, d, func(w, i int) error { return p.publish(w + n*pick(w, i, entities/n)) })
	}}
}
