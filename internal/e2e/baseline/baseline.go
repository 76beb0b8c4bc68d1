// Package baseline has programs that use JetStream without shardgen. Their rates are the baseline
// for a stream that is applied to durable entities.
package baseline

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	pulled      = 1024
	outstanding = 4096
)

func consumer(ctx context.Context, js jetstream.JetStream, stream string) (c jetstream.Consumer, end func() error, err error) {
	c, err = js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: outstanding, InactiveThreshold: time.Minute})
	if err != nil {
		return nil, nil, err
	}
	return c, func() error { return js.DeleteConsumer(ctx, stream, c.CachedInfo().Name) }, nil
}

// Acknowledged returns the rate, in messages a second, of a worker that only acknowledges messages. It
// reads a stream from its begin. Meanwhile publish runs, and returns how many messages there are to
// read.
func Acknowledged(ctx context.Context, js jetstream.JetStream, stream string, publish func() (int, error)) (perSecond float64, err error) {
	c, end, err := consumer(ctx, js, stream)
	if err != nil {
		return 0, err
	}
	var got, all atomic.Int64
	all.Store(math.MaxInt64) // until publish returns
	done := make(chan error, 1)
	report := func(err error) {
		select {
		case done <- err:
		default: // there is an earlier report
		}
	}
	begin := time.Now()
	reading, err := c.Consume(func(m jetstream.Msg) {
		if err := m.Ack(); err != nil {
			report(err)
		}
		if got.Add(1) >= all.Load() {
			report(nil)
		}
	}, jetstream.PullMaxMessages(pulled))
	if err != nil {
		return 0, err
	}
	defer reading.Stop()
	n, err := publish()
	if err != nil {
		return 0, err
	}
	if all.Store(int64(n)); got.Load() >= int64(n) {
		report(nil)
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return float64(n) / time.Since(begin).Seconds(), errors.Join(err, end())
}

// OneByOne returns the rate, in messages a second, of a worker that handles one message at a time.
// For each message the worker calls key to find the message's entity, writes the message to that
// entity's record by compare-and-set, and then acknowledges the message. The worker stops after n
// messages. After the time d it begins no further message.
func OneByOne(ctx context.Context, js jetstream.JetStream, stream string, key func(jetstream.Msg) string, n int, d time.Duration) (perSecond float64, err error) {
	c, end, err := consumer(ctx, js, stream)
	if err != nil {
		return 0, err
	}
	states, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "states", Storage: jetstream.FileStorage})
	if err != nil {
		return 0, err
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(pulled))
	if err != nil {
		return 0, err
	}
	defer messages.Stop()
	begin, done, revisions := time.Now(), 0, map[string]uint64{}
	for ; done < n && time.Since(begin) < d; done++ {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return 0, err
		}
		k := key(m)
		if revisions[k] == 0 {
			if found, err := states.Get(ctx, k); err == nil {
				revisions[k] = found.Revision()
			}
		}
		if revisions[k], err = states.Update(ctx, k, m.Data(), revisions[k]); err != nil {
			return 0, err
		}
		if err := m.Ack(); err != nil {
			return 0, err
		}
	}
	return float64(done) / time.Since(begin).Seconds(), end()
}

// Published returns the rate, in messages a second, of a process that publishes n messages on a
// subject. Within js's bound of pending messages it does not wait for acknowledgements.
func Published(ctx context.Context, js jetstream.JetStream, subject string, n int) (perSecond float64, err error) {
	begin := time.Now()
	for range n {
		if _, err := js.PublishAsync(subject, []byte("12345")); err != nil {
			return 0, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return float64(n) / time.Since(begin).Seconds(), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
