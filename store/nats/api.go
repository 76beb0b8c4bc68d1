package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/store"
)

// An api sends requests to JetStream's API.
type api struct{ *conn }

// inquire is call, but repeats the request while servers elect leaders and do not answer. It is
// only for requests that change nothing.
func (c *api) inquire(ctx context.Context, subject string, in, v any) error {
	return c.again(ctx, func(ctx context.Context) (bool, error) {
		err := c.call(ctx, subject, in, v)
		var refused *apiError
		final := errors.As(err, &refused) && refused.ErrCode != codeUnavailable
		return err == nil || final, err
	})
}

// call sends a request to JetStream's API and decodes the answer into v. If the answer is an error,
// call returns it as an *apiError.
func (c *api) call(ctx context.Context, subject string, in, v any) error {
	var data []byte
	if in != nil {
		data, _ = json.Marshal(in) // plain structs
	}
	got, err := c.ask(ctx, &nats.Msg{Subject: c.js + subject, Data: data}, false, store.ErrUnavailable)
	if errors.Is(err, errNobody) {
		return &apiError{Code: 503, ErrCode: codeNotEnabled, Description: "JetStream does not answer: it is not enabled, or its servers have no leader"}
	}
	if err != nil {
		return err
	}
	var answer struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(got[0].Data, &answer); err != nil {
		return fmt.Errorf("%w: JetStream's answer on %s: %w", store.ErrUnavailable, subject, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return json.Unmarshal(got[0].Data, v)
}

// why returns the error for a request about a stream if nobody listens on the request's subject.
// Such a request had no effect.
func (c *api) why(ctx context.Context, stream string) error {
	var info streamInfo
	err := c.inquire(ctx, "STREAM.INFO."+stream, nil, &info)
	var refused *apiError
	switch {
	case errors.As(err, &refused):
		return finalError{refused.unapplied(stream)}
	case err != nil:
		return unavailable(err)
	}
	return fmt.Errorf("%w: stream %s: %w", store.ErrUnavailable, stream, errNoLeader)
}

// firstAttempt bounds the first attempt of a read, because the replica that was asked may have
// stopped. After each attempt that was not answered in time, the next one may take twice as long.
const firstAttempt = 500 * time.Millisecond

// again calls f, with pauses, until f is done, because another attempt may reach a replica that
// answers and does not lag. When ctx ends or the time for one call is over, it returns f's last
// error.
func (c *api) again(ctx context.Context, f func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	within := firstAttempt
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		attempt, end := context.WithTimeout(ctx, within)
		done, err := f(attempt)
		if attempt.Err() != nil {
			within *= 2
		}
		end()
		var final finalError
		if done || errors.As(err, &final) {
			return err
		}
		if !pause(ctx, wait) {
			if err == nil {
				err = fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
			}
			return err
		}
	}
}

// pause waits for d. It reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
