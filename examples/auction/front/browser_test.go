package front_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/examples/auction/auction"
	"github.com/shardgen/shardgen/examples/auction/front"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// spy is a script that the test adds to the page. It sends the page's text and JavaScript errors to
// the test, and runs the JavaScript that the test answers.
const spy = `<script>
onerror = (text) => { fetch('spy', { method: 'POST', body: 'error: ' + text }); };
setInterval(async () => {
	const answer = await fetch('spy', { method: 'POST', body: document.body.innerText });
	const order = await answer.text();
	if (order) eval(order);
}, 50);
</script>`

// A screen is the text that a browser shows, and the test's next order to it.
type screen struct {
	mu    sync.Mutex
	text  string
	order string // JavaScript that the page is to run
}

func (s *screen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body) // the browser may be gone
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.HasPrefix(s.text, "error: ") {
		s.text = string(text)
	}
	_, _ = io.WriteString(w, s.order)
	s.order = ""
}

func (s *screen) do(order string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = order
}

// shows waits until the page shows all texts.
func (s *screen) shows(t *testing.T, texts ...string) {
	t.Helper()
	end := time.After(30 * time.Second)
	for again := time.Tick(20 * time.Millisecond); ; {
		s.mu.Lock()
		text := s.text
		s.mu.Unlock()
		if strings.HasPrefix(text, "error: ") {
			t.Fatal(text)
		}
		missing := ""
		for _, want := range texts {
			if !strings.Contains(text, want) {
				missing = want
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-again:
		case <-end:
			t.Fatalf("the page does not show %q:\n%s", missing, text)
		}
	}
}

// TestPage shows the page in a browser, beside a cluster on NATS: it shows bids that others make, and
// makes one itself.
func TestPage(t *testing.T) {
	chromium := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		t.Skip("Chromium is not installed")
	}
	ctx, f := t.Context(), start(t)
	s := &screen{}
	mux := http.NewServeMux()
	mux.Handle("/", f.front)
	mux.Handle("POST /spy", s)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		f.front.ServeHTTP(w, r)
		_, _ = io.WriteString(w, spy)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	const evil = `<img src=x onerror="document.title='evil'">`
	hour := time.Now().Add(time.Hour)
	if err := errors.Join(
		f.users.Ref("ann").Deposit(ctx, 100_00), f.users.Ref("bob").Deposit(ctx, 100_00),
		f.auctions.Ref("vase").Open(ctx, "cleo", hour), f.auctions.Ref(evil).Open(ctx, "cleo", hour),
	); err != nil {
		t.Fatal(err)
	}
	browsing, stop := context.WithCancel(context.WithoutCancel(ctx))
	browser := exec.CommandContext(browsing, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
		"--user-data-dir="+t.TempDir(), server.URL)
	if err := browser.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = browser.Wait() // killed
		server.CloseClientConnections()
	}()
	s.shows(t, "2 open", "vase", "cleo", "0.00", evil)
	if err := f.users.Ref("ann").Bid(ctx, "vase", 12_34); err != nil {
		t.Fatal(err)
	}
	s.shows(t, "12.34", "ann")
	s.do(`const form = document.getElementById('bid').elements;
		form.user.value = 'bob'; form.id.value = 'vase'; form.amount.value = 2000;
		document.querySelector('#bid button').click();`)
	s.shows(t, "done", "20.00", "bob")
	s.do(`document.querySelector('#bid button').click();`) // the same bid again
	s.shows(t, "not above the highest bid")
	s.do(`const open = document.getElementById('open').elements;
		open.user.value = 'dora'; open.id.value = 'cup'; open.seconds.value = 1;
		document.querySelector('#open button').click();`)
	s.shows(t, "cup", "dora")
	s.shows(t, "over") // a second later
	s.do(`document.body.append('the title is ' + document.title);`)
	s.shows(t, "the title is Auctions") // no name was run as HTML
}

// A service is a front, and a node beside it.
type service struct {
	front    *front.Front
	users    *auction.UserClient
	auctions *auction.AuctionClient
}

func start(t *testing.T) service {
	t.Helper()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	store, err := natsstore.Open(t.Context(), server.ClientURL(), natsstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	node := shard.New(shard.Config{
		Cluster: "page", Name: "n1", Transport: natstransport.New(server.ClientURL()), Store: store, Logger: slog.New(slog.DiscardHandler),
	})
	if err := errors.Join(auction.Host(node), node.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	f := front.New(node)
	live, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	if _, err := live.Subscribe(auction.Live, func(m *nats.Msg) { f.Changed(string(m.Data)) }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return service{f, auction.NewUserClient(node), auction.NewAuctionClient(node)}
}
