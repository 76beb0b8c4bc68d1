package node

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/transport"
)

// testConfig returns a configuration with defaults and with the tests' own form of errors.
func testConfig() Config {
	return Config{
		Cluster: "test", Name: "a", Lanes: 1, CallTimeout: 5 * time.Second, HandoffTimeout: time.Minute,
		BufferSize: 100_000, ShardBytes: 32 << 20, BufferBytes: 128 << 20,
		Window: 1 << 20, MaxBuffered: 8 << 20, AnswerBytes: 32 << 20, SingletonBuffer: 1_000, Logger: slog.Default(),
		CallError: func(f CallFailure) error { return &callError{f} },
		Cause:     func(err error) string { return "stub" },
		ReadCallError: func(err error) (CallFailure, bool) {
			var failed *callError
			if errors.As(err, &failed) {
				return failed.CallFailure, true
			}
			return CallFailure{}, false
		},
	}
}

// A callError is the error of a call.
type callError struct{ CallFailure }

func (e *callError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s/%s.%s: %s", e.Kind, e.ID, e.Method, e.Text)
	}
	return fmt.Sprintf("call %s/%s.%s: %v (%v)", e.Kind, e.ID, e.Method, e.Err, e.Outcome)
}

func (e *callError) Unwrap() error { return e.Err }

// outcomeOf reports whether the call that returned err ran.
func outcomeOf(err error) calls.Outcome {
	f, _ := testConfig().ReadCallError(err)
	return f.Outcome
}

// testPeer is the process of testConfig.
var testPeer = transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1}}
