package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/examples/auction/auction"
	"github.com/shardgen/shardgen/examples/auction/front"
)

const (
	bidders = 12
	sellers = 3
)

// A pace says how often something is done, and how long auctions last.
type pace struct {
	bid, open, pay    time.Duration // intervals of a bidder, a seller, and the payment service
	shortest, longest time.Duration
}

var (
	fast = pace{
		bid: 20 * time.Millisecond, open: 450 * time.Millisecond, pay: 200 * time.Millisecond,
		shortest: 2 * time.Second, longest: 5 * time.Second,
	}
	visible = pace{ // for people who look
		bid: 2 * time.Second, open: 5 * time.Second, pay: 5 * time.Second,
		shortest: 10 * time.Second, longest: time.Minute,
	}
)

func bidderName(i int) string { return fmt.Sprint("bidder-", i+1) }

func sellerName(i int) string { return fmt.Sprint("seller-", i+1) }

// A load makes requests until its context ends, and notes the answers in the books.
type load struct {
	front string // a URL
	js    jetstream.JetStream
	pace  pace
	http  *http.Client

	mu    sync.Mutex
	books books
	open  []front.Item // auctions of the front's last list
}

func newLoad(url string, js jetstream.JetStream, p pace) *load {
	return &load{
		front: url, js: js, pace: p, http: &http.Client{Timeout: 5 * time.Second},
		books: books{bids: map[string]int64{}, paid: map[string]auction.Paid{}, sent: map[string]int64{}},
	}
}

// run makes requests until the context stop ends. It repeats a request under way until the request
// has an answer, or ctx ends.
func (l *load) run(ctx, stop context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	each := func(every time.Duration, do func(n int) error) {
		all.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-tick.C:
				case <-stop.Done():
					return
				case <-ctx.Done():
					return
				}
				if err := do(n); err != nil {
					fail(err)
					return
				}
			}
		})
	}
	for i := range sellers {
		each(l.pace.open, func(n int) error { return l.sell(ctx, i, n) })
	}
	for i := range bidders {
		each(l.pace.bid, func(n int) error { return l.bid(ctx, i, n) })
	}
	each(l.pace.pay, func(n int) error { return l.pay(ctx, n) })
	each(500*time.Millisecond, func(int) error {
		var open []front.Item
		_, err := l.ask(ctx, "GET", "/auctions", "", "", nil, &open)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = open
		return err
	})
	watching, unwatch := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { l.watch(watching) })
	all.Wait()
	unwatch()
	watcher.Wait()
	return context.Cause(ctx)
}

func (l *load) sell(ctx context.Context, seller, n int) error {
	id := fmt.Sprintf("lot-%d-%d", seller+1, n)
	ends := time.Now().Add(l.pace.shortest + rand.N(l.pace.longest-l.pace.shortest)).Truncate(time.Millisecond)
	in := struct {
		ID   string
		Ends time.Time
	}{id, ends}
	code, err := l.ask(ctx, "POST", "/auctions", sellerName(seller), "open-"+id, in, nil)
	if err == nil && code != http.StatusOK {
		return fmt.Errorf("open %s: status %d", id, code)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.books.bids[id] += 0 // creates the key
	}
	return err
}

// bid makes a bid. It sends each tenth request twice, as an impatient client does.
func (l *load) bid(ctx context.Context, bidder, n int) error {
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	if len(open) == 0 {
		return nil
	}
	at := open[rand.IntN(len(open))]
	in := struct{ Amount int64 }{at.High + 1 + rand.Int64N(5_00)} // perhaps too low already
	name, path := bidderName(bidder), "/auctions/"+at.ID+"/bids"
	key := fmt.Sprintf("bid-%s-%d", name, n)
	code, err := l.ask(ctx, "POST", path, name, key, in, nil)
	if code == http.StatusOK && n%10 == 0 {
		if code, err = l.ask(ctx, "POST", path, name, key, in, nil); err == nil && code != http.StatusOK {
			return fmt.Errorf("bid %s: the repeated request got status %d", key, code)
		}
	}
	if err != nil || code == http.StatusConflict { // too low, not covered, or over
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("bid at %s: status %d", at.ID, code)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.books.bids[at.ID]++
	return nil
}

// pay publishes a payment. Each third one is published twice, as a payment service may do.
func (l *load) pay(ctx context.Context, n int) error {
	p := auction.Paid{ID: fmt.Sprint("payment-", n), User: bidderName(n % bidders), Amount: 10_00 + rand.Int64N(100_00)}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	times := 1
	if n%3 == 0 {
		times = 2
	}
	for i := range times {
		if err := l.publish(ctx, "payments."+p.User, data, fmt.Sprint(p.ID, "/", i)); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.books.paid[p.ID], l.books.sent[p.ID] = p, int64(times)
	return nil
}

// publish adds one message to a stream. After an error the message may be there, so publish sends
// it again: the stream drops a second message with the same id.
func (l *load) publish(ctx context.Context, subject string, data []byte, id string) error {
	for {
		trying, cancel := context.WithTimeout(ctx, time.Second)
		_, err := l.js.Publish(trying, subject, data, jetstream.WithMsgID(id))
		cancel()
		if err == nil {
			return nil
		}
		if err := l.pause(ctx); err != nil {
			return err
		}
	}
}

// ask makes one request. It repeats the request with the same key until an answer shows that the
// request ran. It returns the HTTP status of that answer.
func (l *load) ask(ctx context.Context, method, path, user, key string, in, out any) (code int, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	for {
		code, err := l.once(ctx, method, path, user, key, body, out)
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil: // the front is away: it may have run
		case code == http.StatusServiceUnavailable: // it did not run
		case code == http.StatusGatewayTimeout: // it may have run
		default:
			return code, nil
		}
		if err := l.pause(ctx); err != nil {
			return 0, err
		}
	}
}

func (l *load) pause(ctx context.Context) error {
	l.mu.Lock()
	l.books.again++
	l.mu.Unlock()
	select {
	case <-time.After(100*time.Millisecond + rand.N(200*time.Millisecond)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *load) once(ctx context.Context, method, path, user, key string, body []byte, out any) (code int, err error) {
	request, err := http.NewRequestWithContext(ctx, method, l.front+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if user != "" {
		request.SetBasicAuth(user, "")
		request.Header.Set("Idempotency-Key", key)
	}
	answer, err := l.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	switch answer.StatusCode {
	case http.StatusOK:
		if out != nil {
			err = json.Unmarshal(text, out)
		}
	case http.StatusConflict, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return 0, fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return answer.StatusCode, err
}

// watch counts the changes that the front sends, until ctx ends.
func (l *load) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := l.watchOnce(ctx); err != nil {
			_ = l.pause(ctx)
		}
	}
}

func (l *load) watchOnce(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.front+"/live", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request) // which has no timeout
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			l.mu.Lock()
			l.books.live++
			l.mu.Unlock()
		}
	}
	return errors.Join(lines.Err(), io.EOF)
}
