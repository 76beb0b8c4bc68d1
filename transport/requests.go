package transport

import (
	"context"
	"log/slog"
)

// A Requester is a Transport that also receives requests of any client of the broker, in
// any language.
type Requester interface {
	// ServeRequests receives the requests for some kinds until stop is called; stop
	// returns when no handler runs any more. Requests come to
	// sh.<cluster>.g.<caller>.<kind>.<method>.<id>, with the id as [EscapeID] writes it, or
	// without an id. Of the members that serve a kind one gets each request. The caller's
	// identity is a name of 1 to 64 of [A-Za-z0-9_-], which the broker's permissions grant.
	// Requests are answered only below _INBOX.<caller>., and others that have a reply subject
	// are refused; the identity "any" may have each _INBOX.
	ServeRequests(ctx context.Context, o RequestOptions) (stop func(), err error)
}

// RequestOptions select and handle requests.
type RequestOptions struct {
	Cluster string
	Name    string // of this node, for the broker's list of connections
	Kinds   []string
	// Handle is called on a goroutine of its own for each request. At most Limit calls
	// run at once, and for one caller at most half of that; beyond either Refuse is called instead.
	Handle, Refuse func(*Request)
	Limit          int
	Logger         *slog.Logger
}

// A Request is a call of a client without generated code.
type Request struct {
	Caller           string // identity of the caller, as the broker grants it
	Kind, Method, ID string
	IDErr            error // set if the id in the subject has a wrong escape
	ContentType      string
	Timeout          string // as time.ParseDuration reads it; "" when not given
	// Header has the other headers of the request, as they came.
	Header map[string][]string
	Body   []byte
	// Answer sends the answer; nil when none is wanted.
	Answer func(header map[string]string, body []byte) error
}
