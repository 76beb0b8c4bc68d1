package front_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/auction/auction"
	"github.com/shardgen/shardgen/examples/auction/front"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// request makes a request as a user; "" is nobody.
func request(h http.Handler, method, path, user, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if user != "" {
		r.SetBasicAuth(user, "")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var ends = time.Date(2027, 1, 2, 15, 4, 5, 0, time.UTC)

// house returns a stand-in for a cluster, with some entities.
func house() *shardtest.Caller {
	c := shardtest.NewCaller()
	auctions := auction.NewAuctionClient(c)
	c.Put("Auction", "vase", &auction.Auction{ID: "vase", Seller: "cleo", High: 50, Bidder: "bob", Ends: ends})
	c.Put("Auction", "lamp", &auction.Auction{ID: "lamp", Seller: "cleo", Ends: ends.Add(-time.Hour)})
	c.Put("Auction", "sold", &auction.Auction{ID: "sold", Seller: "cleo", High: 9, Bidder: "bob", Ends: ends, Closed: true})
	c.Put("Auction", "none", &auction.Auction{ID: "none"})
	for _, id := range []string{"away", "lost", "busy", "private", "broken"} {
		c.Put("Auction", id, &auction.Auction{ID: id, Seller: "cleo", Ends: ends})
	}
	c.Put("User", "ann", &auction.User{ID: "ann", Money: 100, Auctions: auctions})
	c.Fail("User", "lost", shard.Unknown, shard.ErrLost)
	c.Fail("User", "busy", shard.NotExecuted, shard.ErrOverloaded)
	c.Fail("User", "again", shard.NotExecuted, shard.ErrCommandReused)
	c.Fail("User", "blocked", shard.NotExecuted, shard.ErrRefused)
	c.Fail("User", "broken", shard.Executed, shard.ErrNoResult)
	return c
}

// TestAnswers checks the status and a part of each answer.
func TestAnswers(t *testing.T) {
	const bid = `{"Amount": 60}`
	for _, test := range []struct {
		method, path, user, body string
		status                   int
		part                     string
	}{
		{"GET", "/", "", "", 200, "<title>Auctions</title>"},
		{"GET", "/nothing", "", "", 404, ""},
		{"DELETE", "/auctions", "", "", 405, ""},
		{"GET", "/auctions/vase", "", "", 200, `{"ID":"vase","Seller":"cleo","Bidder":"bob","High":50,"Ends":"2027-01-02T15:04:05Z","Closed":false,"Bids":0}`},
		{"GET", "/auctions/none", "", "", 404, "nobody has opened"},
		{"GET", "/users/ann", "", "", 200, `{"Money":100,"Free":100}`},
		{"POST", "/auctions", "", `{"ID": "cup", "Ends": "2027-01-02T15:04:05Z"}`, 401, "has no user"},
		{"POST", "/auctions", "dora", `{"ID": "vase", "Ends": "2027-01-02T15:04:05Z"}`, 409, "another auction"},
		{"POST", "/auctions", "cleo", `{"ID": "vase", "Ends": "2027-01-02T15:04:05Z"}`, 200, `"Seller":"cleo"`}, // again
		{"POST", "/auctions", "cleo", `{"ID": "cup"}`, 400, "Ends"},
		{"POST", "/auctions/vase/bids", "", bid, 401, "has no user"},
		{"POST", "/auctions/vase/bids", "ann", `{"Amount": "much"}`, 400, "is not valid"},
		{"POST", "/auctions/vase/bids", "ann", `{"Sum": 60}`, 400, "Sum"},
		{"POST", "/auctions/vase/bids", "ann", `{"Amount": -1}`, 400, "positive"},
		{"POST", "/auctions/none/bids", "ann", bid, 404, "nobody has opened"},
		{"POST", "/auctions/vase/bids", "ann", `{"Amount": 50}`, 409, "not above"},
		{"POST", "/auctions/vase/bids", "ann", `{"Amount": 101}`, 409, "free money"},
		{"POST", "/auctions/sold/bids", "ann", bid, 409, "over"},
		{"POST", "/auctions/vase/bids", "ann", bid, 200, `{"Amount":60}`},
		{"POST", "/auctions/vase/bids", "lost", bid, 504, "may have run"},
		{"POST", "/auctions/vase/bids", "busy", bid, 503, "overloaded"},
		{"POST", "/auctions/vase/bids", "again", bid, 422, ""},
		{"POST", "/auctions/vase/bids", "blocked", bid, 403, ""},
		{"POST", "/auctions/vase/bids", "broken", bid, 500, ""},
		{"GET", "/users/lost", "", "", 503, ""},
	} {
		t.Run(fmt.Sprint(test.method, " ", test.path, " ", test.user, " ", test.status), func(t *testing.T) {
			w := request(front.New(house()), test.method, test.path, test.user, "", test.body)
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.part) {
				t.Errorf("got %d %s, want %d and %q", w.Code, w.Body, test.status, test.part)
			}
			if again := w.Header().Get("Retry-After") != ""; again != (w.Code == 503) {
				t.Errorf("Retry-After is %q with status %d", w.Header().Get("Retry-After"), w.Code)
			}
		})
	}
}

// TestOpenAuctions lists the auctions that are open, in the order of their deadlines.
func TestOpenAuctions(t *testing.T) {
	c := house()
	w := request(front.New(c), "GET", "/auctions", "", "", "")
	var open []front.Item
	if err := json.Unmarshal(w.Body.Bytes(), &open); err != nil || len(open) != 7 || open[0].ID != "lamp" {
		t.Fatalf("got %d %s, %v; want the lamp and six others", w.Code, w.Body, err)
	}
	c.Fail("Auction", "vase", shard.Unknown, shard.ErrLost)
	if w := request(front.New(c), "GET", "/auctions", "", "", ""); w.Code != 503 {
		t.Errorf("got %d %s without the vase, want 503 and no part of the list", w.Code, w.Body)
	}
}

// TestRepeatedBid cuts off the bidder's home during a bid: the request gets 504. The same request,
// sent again, must not bid a second time.
func TestRepeatedBid(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		h := front.New(c.Client())
		users, auctions := auction.NewUserClient(c.Client()), auction.NewAuctionClient(c.Client())
		if err := errors.Join(users.Ref("ann").Deposit(t.Context(), 1000), auctions.Ref("vase").Open(t.Context(), "cleo", time.Now().Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
		c.Move("User", "ann", "n1")
		c.Move("Auction", "vase", "n2")
		done := make(chan *httptest.ResponseRecorder)
		bid := func() { done <- request(h, "POST", "/auctions/vase/bids", "ann", "one", `{"Amount": 60}`) }
		go bid()
		c.Advance(45 * time.Millisecond) // the auction was shown, and the bid is at n1
		c.Cut("client", "n1")
		if w := <-done; w.Code != 504 || !strings.Contains(w.Body.String(), "same Idempotency-Key") {
			t.Errorf("got %d %s from a home that was cut off, want 504", w.Code, w.Body)
		}
		c.Mend()
		c.Settle()
		for range 2 {
			go bid()
			if w := <-done; w.Code != 200 {
				t.Errorf("got %d %s for the same request, want 200", w.Code, w.Body)
			}
		}
		w := request(h, "POST", "/auctions/vase/bids", "ann", "one", `{"Amount": 70}`)
		if w.Code != 422 {
			t.Errorf("got %d %s for another bid with the same key, want 422", w.Code, w.Body)
		}
		if w := request(h, "GET", "/auctions/"+strings.Repeat("x", 2000), "", "", ""); w.Code != 400 {
			t.Errorf("got %d %s for an id of 2000 bytes, want 400", w.Code, w.Body)
		}
		v, err := auctions.Ref("vase").Show(t.Context())
		if err != nil || v.Bids != 1 || v.High != 60 || v.Bidder != "ann" {
			t.Errorf("got %+v, %v; want one bid", v, err)
		}
	}, shardtest.Nodes(3), shardtest.Host(auction.Host), shardtest.Latency(10*time.Millisecond, 10*time.Millisecond))
}

// A stuck writer blocks until release is closed, as a connection does that nobody reads.
type stuck struct {
	httptest.ResponseRecorder
	begun   chan struct{}
	release chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	select {
	case <-s.begun:
	default:
		close(s.begun)
	}
	<-s.release
	return len(b), nil
}

// TestSlowWatcher lets a watcher fall behind: nothing waits for it, and it is disconnected.
func TestSlowWatcher(t *testing.T) {
	c := shardtest.NewCaller()
	f := front.New(c)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	slow := &stuck{begun: make(chan struct{}), release: make(chan struct{})}
	left := make(chan struct{})
	go func() {
		defer close(left)
		f.ServeHTTP(slow, httptest.NewRequest(http.MethodGet, "/live", nil)) // which does not end by itself
	}()
	<-slow.begun
	for i := range 100 {
		c.Put("Auction", fmt.Sprint(i), &auction.Auction{ID: fmt.Sprint(i), Seller: "cleo"})
		f.Changed(fmt.Sprint(i))
	}
	running.Go(func() { f.Run(ctx) }) // reads all hundred
	for shown := 0; shown < 100; {
		shown = 0
		for _, call := range c.Calls() {
			if call.Method == "Show" {
				shown++
			}
		}
		<-time.After(time.Millisecond)
	}
	close(slow.release)
	<-left
}

// feed is a connection to /live.
type feed struct {
	lines *bufio.Scanner
	close func()
}

// next returns the next change, or "" at the end.
func (f feed) next() string {
	for f.lines.Scan() {
		if text, ok := strings.CutPrefix(f.lines.Text(), "data: "); ok {
			return text
		}
	}
	return ""
}

// TestLive checks that watchers get the state of each changed auction, and are disconnected if
// changes were missed.
func TestLive(t *testing.T) {
	c := house()
	f := front.New(c)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	server := httptest.NewServer(f)
	defer server.Close()
	defer running.Wait()
	defer cancel()
	connect := func() feed {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(answer.Body)
		if !lines.Scan() || lines.Text() != "retry: 500" {
			t.Fatalf("got %q at first, want the pause before connecting again", lines.Text())
		}
		return feed{lines, func() { _ = answer.Body.Close() }}
	}
	two := []feed{connect(), connect()}
	f.Changed("vase")
	for _, w := range two {
		defer w.close()
		if got := w.next(); !strings.Contains(got, `"High":50`) {
			t.Errorf("got %q, want the vase", got)
		}
	}
	f.Changed("none") // it cannot be read
	f.Changed("sold")
	if got := two[0].next(); !strings.Contains(got, `"Closed":true`) {
		t.Errorf("got %q, want the sold one", got)
	}
	f.Missed()
	for i, w := range two {
		if i == 1 {
			_ = w.next() // the sold one
		}
		if got := w.next(); got != "" {
			t.Errorf("got %q after changes were missed, want the end", got)
		}
	}
	last := connect()
	defer last.close()
	f.Changed("vase")
	if got := last.next(); got == "" {
		t.Error("got the end at a new connection, want the vase")
	}
}
