package natsstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/store"
)

// Error codes from nats-server's jetstream_errors_generated.go.
const (
	codeAccountResources  = 10002
	codeNoPeers           = 10005
	codeUnavailable       = 10008
	codeResources         = 10023
	codeNoMessage         = 10037
	codeNotForAccount     = 10039
	codeStorage           = 10047
	codeMessageTooLarge   = 10054
	codeNameInUse         = 10058
	codeNoStream          = 10059
	codeWrongLast         = 10071
	codeReplicas          = 10074
	codeNotEnabled        = 10076
	codeStoreFailed       = 10077
	codeBusy              = 10164
	codeBatchDisabled     = 10174
	codeBatchIncomplete   = 10176
	codeBatchTooLarge     = 10199
	codeTooManyInFlight   = 10210
	codeClusterNotLeader  = 10009
	codeInsufficientMem   = 10028
	codeSealed            = 10109
	codeTTLDisabled       = 10166
	codeTooManyBatchesOld = 10211
)

type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("JetStream: %s (%d)", e.Description, e.ErrCode)
}

func mended(cause error, e *apiError, mend string) error {
	return fmt.Errorf("%w: %w (%s)", cause, e, mend)
}

func (e *apiError) cause(stream string) error {
	switch e.ErrCode {
	case codeWrongLast:
		return store.ErrConflict
	case codeBusy, codeBatchIncomplete, codeTooManyInFlight, codeTooManyBatchesOld, codeClusterNotLeader:
		return fmt.Errorf("%w: %w", store.ErrBusy, e)
	case codeResources, codeStorage, codeInsufficientMem:
		return mended(store.ErrUnavailable, e, "JetStream's storage on the server is full, or its limit max_file_store: free disk, or raise it")
	case codeAccountResources:
		return mended(store.ErrUnavailable, e, "the account's JetStream limits are used up: raise them")
	case codeMessageTooLarge:
		return mended(store.ErrTooLarge, e, "unset max_msg_size of stream "+stream)
	case codeBatchTooLarge:
		return mended(store.ErrTooLarge, e, "unset jetstream.limits.batch.max_msgs in nats-server's configuration")
	case codeNotEnabled, codeNotForAccount:
		return mended(store.ErrUnavailable, e, "enable JetStream: \"jetstream {store_dir: …}\" in nats-server's configuration, or -js, and in the account")
	case codeNoStream:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, missing(stream))
	case codeNoPeers, codeReplicas:
		return mended(store.ErrUnavailable, e, "start as many servers as Config.Replicas asks for, or lower it")
	case codeUnavailable:
		return mended(store.ErrUnavailable, e, "the servers have no leader for JetStream yet: try again; see nats server report jetstream")
	case codeSealed:
		return mended(store.ErrUnavailable, e, "stream "+stream+" is sealed: restore it")
	case codeBatchDisabled, codeTTLDisabled:
		return mended(store.ErrUnavailable, e, "stream "+stream+" was changed: set allow_atomic and allow_msg_ttl")
	case codeStoreFailed:
		if strings.Contains(e.Description, "maximum") {
			return mended(store.ErrUnavailable, e, "stream "+stream+" is at its limit: unset max_bytes and max_msgs")
		}
	}
	// Otherwise the message may have been stored before the failure.
	return mended(store.ErrUncertain, e, "see the log of nats-server; if the disk is full, make room and restart it")
}

// unapplied is like cause, for requests that have no effect if they are refused.
func (e *apiError) unapplied(stream string) error {
	if err := e.cause(stream); errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return mended(store.ErrUnavailable, e, "see the log of nats-server")
}

// missing returns the error for a missing stream that must not be created.
func missing(stream string) error {
	return fmt.Errorf("stream %s is not there: it was deleted, or never created (restore it from a backup; to begin again without its data, delete all streams of the type)", stream)
}

func fail(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return &store.Error{Op: op, Key: key, Err: err}
}

// unavailable returns err, of a request without effect, as store.ErrUnavailable.
func unavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// repeatableError is like unavailable, for a request that may be repeated.
func repeatableError(err error, stream string) error {
	var refused *apiError
	if errors.As(err, &refused) {
		return refused.unapplied(stream)
	}
	return unavailable(err)
}

// A finalError stays the same when the request is repeated.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// errNoLeader means that no server takes the stream's messages.
var errNoLeader = errors.New("the stream has no leader now (during an election: try again; see nats stream cluster)")
