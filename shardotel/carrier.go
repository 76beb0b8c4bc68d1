package shardotel

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
)

// A carrier has the headers that a propagator writes and reads. Their keys are in lower case.
type carrier map[string]string

// headersOf returns the headers of a call.
func headersOf(call shard.Info) carrier {
	headers := carrier{}
	for key, value := range call.Headers() {
		headers[key] = value
	}
	return headers
}

func (c carrier) Get(key string) string { return c[key] }

func (c carrier) Set(key, value string) { c[key] = value }

func (c carrier) Keys() (keys []string) {
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}

// put returns a context whose calls carry the headers. If the headers do not fit beside those
// already in ctx, it returns ctx itself.
func (c carrier) put(ctx context.Context) (context.Context, error) {
	with := ctx
	for key, value := range c {
		var err error
		if with, err = shard.WithHeader(with, key, value); err != nil {
			return ctx, err
		}
	}
	return with, nil
}
