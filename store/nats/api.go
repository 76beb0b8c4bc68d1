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

type api struct{ *conn }

// inquire is like call, but waits for elections of leaders to end. The request must change nothing.
func (c *api) inquire(ctx context.Context, subject string, in, v any) error {
	return c.again(ctx, func(ctx context.Context) (bool, error) {
		err := c.call(ctx, subject, in, v)
		var refused *apiError
		final := errors.As(err, &refused) && refused.ErrCode != codeUnavailable
		return err == nil || final, err
	})
}

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

// why returns the error for a request to a stream for which no server listens. The request had no
// effect.
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

// firstAttempt bounds the first attempt of the method again, because the replica asked may have
// stopped. Each unanswered attempt doubles the bound.
const firstAttempt = 500 * time.Millisecond

// again calls the function f, with pauses, until the result done is true or the error is a
// finalError. It repeats f because the next request may reach another replica, which does not lag.
// If ctx or the timeout ends first, again returns f's last error, or ErrUnavailable if that is nil.
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
