package browser

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/admin/dashboard"
	"github.com/shardgen/shardgen/runtime/membership"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport/memory"
)

// A scene is a cluster, and a browser that shows its dashboard.
type scene struct {
	t      *testing.T
	broker *memory.Broker
	nodes  []*shard.Node
	url    string
	page   context.Context // chromedp keeps the browser there
}

// patience bounds waits of this test. They are long because a hundred members start at once, beside
// other tests.
const patience = 5 * time.Minute

// show starts a cluster, with a store or without, and opens the page.
func show(t *testing.T, members int, stored bool, options dashboard.Options, host func(*shard.Node) error) *scene {
	t.Helper()
	data := memorystore.New()
	findChromium(t)
	s := &scene{t: t, broker: memory.NewBroker(memory.Options{})}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var starting sync.WaitGroup
	for i := range members {
		cfg := shard.Config{
			Cluster: "shop", Name: fmt.Sprint("n", i+1), Transport: s.broker.Transport(), Logger: quiet,
			Membership: membership.Options{GoneAfter: 10 * time.Second, AgreedAfter: 10 * time.Second, JoinTimeout: patience}, // time to look at the evidence
		}
		if stored {
			cfg.Store = data.Client()
		}
		n := shard.New(cfg)
		require.NoError(t, host(n))
		t.Cleanup(func() { _ = n.Close() })
		s.nodes = append(s.nodes, n)
		starting.Go(func() {
			if err := n.Start(t.Context()); err != nil {
				t.Errorf("start: %v", err)
			}
		})
	}
	starting.Wait()
	client, err := admin.Dial(t.Context(), admin.Options{Cluster: "shop", Transport: s.broker.Transport()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	options.Cluster, options.Logger = "shop", quiet
	b := browse(t, dashboard.Handler(client, options))
	s.url, s.page = b.url, b.page
	return s
}

// browse opens the page that a handler serves.
func browse(t *testing.T, page http.Handler) *scene {
	t.Helper()
	chromium, s := findChromium(t), &scene{t: t}
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	s.url = server.URL

	allocator, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))...)
	t.Cleanup(cancel)
	s.page, cancel = chromedp.NewContext(allocator)
	messages := chromedp.Console(s.page)
	var reading sync.WaitGroup
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			t.Errorf("the browser's console: %v", m)
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	s.do(chromedp.Navigate(server.URL))
	return s
}

// findChromium returns the path of a browser, or skips the test.
func findChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("Chromium is not installed")
	return ""
}

// do runs actions in the browser.
func (s *scene) do(actions ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	require.NoError(s.t, chromedp.Do(s.page, actions...))
}

// evaluate returns the value of an expression.
func evaluate[T any](s *scene, expression string) T {
	s.t.Helper()
	value, err := chromedp.Run(s.page, chromedp.Evaluate[T](expression))
	require.NoError(s.t, err)
	return value
}

// text returns the text that a selector's first element shows.
func (s *scene) text(selector string) string {
	s.t.Helper()
	return evaluate[string](s, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// shows waits until an element shows the texts.
func (s *scene) shows(selector string, texts ...string) {
	s.t.Helper()
	got := ""
	end := time.After(patience)
	for again := time.Tick(50 * time.Millisecond); ; {
		got = s.text(selector)
		missing := ""
		for _, text := range texts {
			if !strings.Contains(got, text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-again:
		case <-end:
			s.picture("failed")
			s.t.Fatalf("%s does not show %q:\n%s", selector, missing, got)
		}
	}
}

// keys types keys.
func (s *scene) keys(text string) {
	s.t.Helper()
	s.do(chromedp.KeyEvent(text))
}

// picture writes a screenshot, if the environment says where to.
func (s *scene) picture(name string) {
	s.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(s.page, chromedp.FullScreenshot(100))
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, s.t.Name()+"-"+name+".png"), png, 0o644))
}

// load calls accounts until the test ends: one of them is hot, and one always fails.
func (s *scene) load() {
	conn, err := shard.Dial(s.t.Context(), shard.Config{
		Cluster: "shop", Name: "web", Transport: s.broker.Transport(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(s.t, err)
	accounts := fixture.NewAccountClient(conn)
	ctx, cancel := context.WithCancel(s.t.Context())
	var calling sync.WaitGroup
	calling.Go(func() {
		pace := time.Tick(2 * time.Millisecond)
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = accounts.Ref(hot).Add(ctx, 1)
			_, _ = accounts.Ref(fmt.Sprint("other-", i%50)).Get(ctx)
			if i%10 == 0 {
				_ = accounts.Ref("poor").Fail(ctx)
			}
			<-pace
		}
	})
	s.t.Cleanup(func() {
		cancel()
		calling.Wait()
		_ = conn.Close()
	})
}

// hot is an entity's id that contains HTML, which the page must show as text.
const hot = `<img src=x onerror=alert(1)>/é`

func TestThreeMembers(t *testing.T) {
	s := show(t, 3, false, dashboard.Options{State: func(*http.Request) bool { return true }}, func(n *shard.Node) error {
		if err := fixture.HostChief(n, func() *fixture.Chief { return &fixture.Chief{} }); err != nil {
			return err
		}
		return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} })
	})
	s.load()

	s.shows("#cluster", "shop")
	s.shows("#health", "healthy")
	s.shows("#summary", "3 members, 256 shards of 2 types", "coordinator n")
	s.shows("main", "Nothing is wrong.", "Account", "Chief", "frames sent")
	s.picture("overview")

	s.keys("2")
	s.shows("main table", "n1", "n2", "n3", "leader", "coordinator")
	s.keys("3")
	s.shows(".groups", "n1\n8", "n2\n8", "n3\n8", "shards") // eighty-odd of 256
	s.do(chromedp.Focus(".groups"))
	s.keys(kb.ArrowRight + kb.ArrowDown)
	s.shows("output", "is at n")
	s.picture("shards")
	s.keys("4")
	s.shows("main", "Account.Add", "Account.Fail", "Account/"+hot, "web")
	s.shows("main table", "Type", "P99", "Account")
	require.Regexp(t, `^[0-9.]+ (µs|ms|s)$`, evaluate[string](s, "document.querySelector('main table tbody tr td:nth-child(5)').textContent"), "p99 of the type")
	s.picture("traffic")
	s.keys("8")
	s.shows("main", "n2")
	s.picture("log")

	s.keys("/")
	require.Equal(t, "search", evaluate[string](s, "document.activeElement.id"))
	require.Empty(t, evaluate[string](s, "document.activeElement.value = ''")) // DevTools types the slash all the same
	s.do(chromedp.SendKeys("#search", "Account/"+hot+kb.Enter))
	s.shows("main", "Account/"+hot, "Home", "Why there", "turns a second", `"Balance": `)
	s.picture("entity")
	require.Empty(t, evaluate[string](s, "document.querySelector('#search').value = ''"))
	s.do(chromedp.SendKeys("#search", "Account/poor"+kb.Enter))
	s.shows("main", "Account/poor", "Failed", "executed: it returned an error")
	s.picture("errors")

	// One member is cut off from the others.
	s.broker.Disconnect("n3")
	s.shows("#health", "fault")
	s.keys("1")
	s.shows("main", "n3#", "is not reachable")
	s.keys("2")
	s.shows("main table", "not reachable")
	s.picture("evidence")
	s.shows("#summary", "2 members") // it was downed, and its shards have new homes
	s.shows("#health", "1 fault")
	s.keys("1")
	s.shows("main", "n3 is missing: it was lost at ", "has not come back")

	_, err := chromedp.Call(s.page, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	require.NoError(t, err)
	require.Equal(t, "rgb(17, 20, 24)", evaluate[string](s, "getComputedStyle(document.body).backgroundColor"))
	s.keys("1")
	s.picture("dark")
}

func TestHundredMembers(t *testing.T) {
	began := time.Now()
	s := show(t, 100, false, dashboard.Options{}, func(n *shard.Node) error {
		return fixture.HostFine(n, func() *fixture.Fine { return &fixture.Fine{} })
	})
	t.Logf("the cluster started after %v", time.Since(began))
	_, err := fixture.NewFineClient(s.nodes[0]).Ref("first", shard.Timeout(patience)).Echo(t.Context(), nil) // shards get homes with the first call
	require.NoError(t, err)
	s.shows("#summary", "100 members, 16,384 shards of 1 types")
	s.shows("#health", "healthy")
	t.Logf("it was healthy after %v", time.Since(began))
	s.picture("overview")
	s.keys("2")
	s.shows("main table", "n1", "n50", "n100")
	s.picture("members")
	s.keys("3")
	shares := make([]string, 100)
	for i := range shares {
		shares[i] = fmt.Sprintf("n%d\n1", i+1) // a hundred and sixty-odd each
	}
	s.shows(".groups", shares...) // members that came later have theirs after the coordinator has balanced
	s.picture("shards")
	// Each member has its own part of the map.
	require.Equal(t, 100, evaluate[int](s, `[...document.querySelectorAll('.groups canvas')].filter((c) =>
		new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer).some((p) => p !== 0)).length`))
}
