package transport

import (
	"context"
	"log/slog"
)

// A Requester is a [Transport] that also receives requests from any client of the broker, in any
// language.
type Requester interface {
	// ServeRequests receives the requests for the given kinds until stop is called. From then on the
	// broker sends requests to other members. The requests that it has sent here are still handled;
	// stop returns when no handler runs any more. It may be called once.
	//
	// Requests come to sh.<cluster>.g.<caller>.<kind>.<method>.<id>,
	// where the id is written by [EscapeID] or missing. Each request goes to one of the members
	// that serve its kind. <caller> is the caller's identity, a name of 1 to 64 of [A-Za-z0-9_-],
	// which the broker's permissions grant. A request whose reply subject is not below
	// _INBOX.<caller> is refused; the identity "any" may use any subject below _INBOX.
	ServeRequests(ctx context.Context, o RequestOptions) (stop func(), err error)
}

// RequestOptions say which requests to receive, and how to handle them.
type RequestOptions struct {
	Cluster string
	Name    string // of this node, for the broker's list of connections
	Kinds   []string
	// Handle is called for each request, on a goroutine of its own. At most Limit calls run at the
	// same time, and at most half as many for one caller. Requests beyond either bound go to Refuse
	// instead.
	Handle, Refuse func(*Request)
	Limit          int
	Logger         *slog.Logger
}

// A Request is a call from a client that has no generated code.
type Request struct {
	Caller           string // identity of the caller, as the broker grants it
	Kind, Method, ID string
	IDErr            error // set if the id in the subject has a wrong escape
	ContentType      string
	Timeout          string // as time.ParseDuration reads it; "" when not given
	// Header has the request's other headers, unchanged: those that have no field in Request.
	Header map[string][]string
	Body   []byte
	// Answer sends the answer. It is nil if the client wants none.
	Answer func(header map[string]string, body []byte) error
}
