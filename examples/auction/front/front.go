// Package front serves auctions over HTTP, in JSON, and a page that shows them live. It has no state,
// so any number of processes can run it.
//
//	POST /auctions             {"ID": "vase", "Ends": "2027-01-02T15:04:05Z"} opens an auction of the user
//	POST /auctions/vase/bids   {"Amount": 5000} bids for the user; a later bid may already be higher
//	GET  /auctions             the auctions that are open
//	GET  /auctions/vase        one auction
//	GET  /users/ann            what a user has
//	GET  /live                 changes, as server-sent events
//
// The user is the name of HTTP basic authentication. The header Idempotency-Key makes it safe to
// repeat a request.
package front

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/examples/auction/auction"
	shard "github.com/shardgen/shardgen/runtime"
)

//go:embed page.html
var page []byte

const (
	patience = 3 * time.Second // for the calls of a request
	maxBody  = 64 << 10        // bytes
	readers  = 16              // calls at a time for a list
)

// A Front serves HTTP requests by calls to the entities. It is safe for concurrent use.
type Front struct {
	auctions *auction.AuctionClient
	users    *auction.UserClient
	mux      *http.ServeMux
	live     hub
}

// New returns a front that calls through c, a shard.Conn or shard.Node.
func New(c shard.Caller) *Front {
	f := &Front{auctions: auction.NewAuctionClient(c), users: auction.NewUserClient(c), mux: http.NewServeMux()}
	f.live.init()
	f.handle("POST /auctions", f.create)
	f.handle("POST /auctions/{id}/bids", f.bid)
	f.handle("GET /auctions", f.list)
	f.handle("GET /auctions/{id}", f.one)
	f.handle("GET /users/{id}", f.account)
	f.mux.HandleFunc("GET /live", f.watch)
	f.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page) // the browser may be gone
	})
	return f
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.mux.ServeHTTP(w, r) }

// handle serves a pattern by a function whose result is written as JSON.
func (f *Front) handle(pattern string, serve func(context.Context, *http.Request) (any, error)) {
	f.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		result, err := serve(ctx, r)
		code := http.StatusOK
		if err != nil {
			code = status(r, err)
			result = map[string]string{"Error": explain(code, err)}
		}
		if code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(result) // the client may be gone
	})
}

var (
	errNobody   = errors.New("the request has no user (send a name by basic authentication)")
	errBadInput = errors.New("the request is not valid")
	errNone     = errors.New("nobody has opened this auction")
)

// user returns the requesting user. A real service checks a password or a token here; this one
// believes the name.
func user(r *http.Request) (string, error) {
	name, _, _ := r.BasicAuth()
	if name == "" {
		return "", errNobody
	}
	return name, nil
}

// status maps an error to the answer's HTTP status. Only this function does so.
func status(r *http.Request, err error) int {
	switch {
	case errors.Is(err, errNobody):
		return http.StatusUnauthorized
	case errors.Is(err, errBadInput), errors.Is(err, shard.ErrBadID):
		return http.StatusBadRequest
	case errors.Is(err, errNone):
		return http.StatusNotFound
	case errors.Is(err, auction.ErrTooLow), errors.Is(err, auction.ErrNotCovered),
		errors.Is(err, auction.ErrOver), errors.Is(err, auction.ErrTaken):
		return http.StatusConflict
	case errors.Is(err, shard.ErrCommandReused):
		return http.StatusUnprocessableEntity // the key of another request
	case errors.Is(err, shard.ErrRefused):
		return http.StatusForbidden
	}
	switch shard.OutcomeOf(err) {
	case shard.NotExecuted: // such as ErrOverloaded, ErrNoHost
		return http.StatusServiceUnavailable
	case shard.Unknown:
		if r.Method == http.MethodGet {
			return http.StatusServiceUnavailable
		}
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError // the method failed in a way that it does not declare
	}
}

// explain returns the message for the client about err.
func explain(code int, err error) string {
	if code == http.StatusGatewayTimeout {
		return fmt.Sprintf("the request may have run: repeat it with the same Idempotency-Key (%v)", err)
	}
	return err.Error()
}

// once returns the options of a changing call: a request with an Idempotency-Key runs once, however
// often it is sent.
func once(r *http.Request) []shard.CallOption {
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		return []shard.CallOption{shard.CommandID(key)}
	}
	return nil
}

func decode(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", errBadInput, err)
	}
	return nil
}

func (f *Front) create(ctx context.Context, r *http.Request) (any, error) {
	seller, err := user(r)
	if err != nil {
		return nil, err
	}
	var in struct {
		ID   string
		Ends time.Time
	}
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	if in.ID == "" || in.Ends.IsZero() {
		return nil, fmt.Errorf("%w: it needs an ID and Ends", errBadInput)
	}
	if err := f.auctions.Ref(in.ID, once(r)...).Open(ctx, seller, in.Ends); err != nil {
		return nil, err
	}
	return Item{in.ID, auction.View{Seller: seller, Ends: in.Ends}}, nil
}

func (f *Front) bid(ctx context.Context, r *http.Request) (any, error) {
	bidder, err := user(r)
	if err != nil {
		return nil, err
	}
	var in struct{ Amount int64 }
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	if in.Amount <= 0 {
		return nil, fmt.Errorf("%w: the Amount must be positive", errBadInput)
	}
	item, err := f.show(ctx, r.PathValue("id")) // auctions never vanish, so the bid may come later
	if err != nil {
		return nil, err
	}
	return in, f.users.Ref(bidder, once(r)...).Bid(ctx, item.ID, in.Amount)
}

func (f *Front) one(ctx context.Context, r *http.Request) (any, error) {
	return f.show(ctx, r.PathValue("id"))
}

func (f *Front) account(ctx context.Context, r *http.Request) (any, error) {
	return f.users.Ref(r.PathValue("id")).Statement(ctx)
}

// An Item is an auction with its name.
type Item struct {
	ID string
	auction.View
}

func (f *Front) show(ctx context.Context, id string) (Item, error) {
	v, err := f.auctions.Ref(id).Show(ctx)
	if err == nil && v.Seller == "" {
		err = errNone
	}
	return Item{id, v}, err
}

// list returns the auctions that are open, in the order of their ends.
func (f *Front) list(ctx context.Context, _ *http.Request) (any, error) {
	var (
		reading sync.WaitGroup
		mu      sync.Mutex
		open    = []Item{}
		failed  error
		places  = make(chan struct{}, readers)
	)
	for id, err := range f.auctions.FindByClosed(ctx, false) {
		if err != nil {
			mu.Lock()
			failed = err
			mu.Unlock()
			break
		}
		places <- struct{}{}
		reading.Go(func() {
			defer func() { <-places }()
			item, err := f.show(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, errNone):
			case err != nil:
				failed = err
			case !item.Closed:
				open = append(open, item)
			}
		})
	}
	reading.Wait()
	slices.SortFunc(open, func(a, b Item) int { return a.Ends.Compare(b.Ends) })
	return open, failed
}
