package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin/dashboard"
	memorystream "github.com/shardgen/shardgen/stream/memory"
)

var widths = []int{320, 768, 1600}

// look sets the width of the window and the colours.
func (s *scene) look(width int, scheme string) {
	s.t.Helper()
	_, err := chromedp.Call(s.page, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: 900, DeviceScaleFactor: 1})
	require.NoError(s.t, err)
	_, err = chromedp.Call(s.page, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(s.t, err)
}

// axe checks the page with axe-core, of which the environment variable AXE names the file axe.min.js
// (npm pack axe-core). It is not part of this repository.
func (s *scene) axe(name string) {
	s.t.Helper()
	file := os.Getenv("AXE")
	if file == "" {
		return
	}
	text, err := os.ReadFile(file)
	require.NoError(s.t, err)
	if !evaluate[bool](s, "typeof axe === 'object'") {
		s.do(chromedp.Evaluate[chromedp.Void](string(text) + "; undefined"))
	}
	evaluate[bool](s, `window.found = undefined; axe.run(document).then((r) => {
		window.found = r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html + ' ' + n.failureSummary).join(' | ')).join('\n') || 'none';
	}, (e) => { window.found = String(e); }); true`)
	end := time.After(patience)
	for again := time.Tick(20 * time.Millisecond); ; {
		if found := evaluate[string](s, "window.found ?? ''"); found != "" {
			if found != "none" {
				s.t.Errorf("%s: axe finds %s", name, found)
			}
			return
		}
		select {
		case <-again:
		case <-end:
			s.t.Fatalf("%s: axe does not end", name)
		}
	}
}

// TestEveryPage shows each page of a cluster that has everything, at three widths, dark and light.
func TestEveryPage(t *testing.T) {
	paid := memorystream.New(2)
	s := show(t, 3, true, dashboard.Options{
		State: func(*http.Request) bool { return true },
		Checks: func(context.Context) []dashboard.Check {
			return []dashboard.Check{{Name: "streams", Status: "ok", Text: "5 streams with 3 replicas"}, {Name: "jetstream", Status: "skipped", Text: "not checked"}}
		},
	}, func(n *shard.Node) error {
		wallets := bank.NewWalletClient(n)
		return errors.Join(
			fixture.HostChief(n, func() *fixture.Chief { return &fixture.Chief{} }),
			fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }),
			fixture.HostCrew(n, func() *fixture.Crew { return &fixture.Crew{} }, shard.PoolSize(2, 4)),
			bank.HostAlarm(n, func() *bank.Alarm { return &bank.Alarm{} }), bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }),
			shard.Consume(n, "paid", paid, func(ctx context.Context, m shard.Message) error {
				if m.Subject == "bad" {
					return errors.New("it cannot be read")
				}
				return wallets.Tell(m.Subject).Put(ctx, int64(len(m.Data)))
			}),
		)
	})
	s.load()
	alarms := bank.NewAlarmClient(s.nodes[0])
	for i := range 3 {
		require.NoError(t, alarms.Tell(fmt.Sprint("clock-", i), shard.At(time.Now().Add(time.Duration(i*2+1)*25*time.Minute))).Ring(t.Context(), "x"))
	}
	for range 20 {
		paid.Publish(0, "ann", []byte("x"))
	}
	paid.Publish(1, "bad", []byte("x"))
	s.shows("#health", "healthy")

	pages := []struct {
		name, hash string
		texts      []string
	}{
		{"overview", "overview", []string{"Nothing is wrong.", "Turns a second", "Time of a turn", "in the last hour", "Account", "Alarm", "Chief"}},
		{"members", "members", []string{"n1", "n2", "n3", "of"}},
		{"member", "member/n1", []string{"Member n1", "goroutines", "Processors", "Memory", "Hosts"}},
		{"shards", "shards/Account", []string{"n1", "n2", "n3", "shards", "367"}}, // the shard of the hot entity is among the hottest,
		{"traffic", "traffic", []string{"Account.Add", "Account/" + hot, "web"}},
		{"entities", "entities/Account", []string{"52 entities", hot, "other-49", "poor"}},
		{"entity", "entity/Account/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%2F%C3%A9", []string{"Account/" + hot, "Why there", `"Balance": `}},
		{"type", "type/Account", []string{"Type Account", "Add", "Busiest entities", hot}},
		{"durable", "type/Alarm", []string{"Entities with reminders", "clock-0", "1\ndue within the hour", "3\npending"}},
		{"pool", "type/Crew", []string{"Instances", "The pool has 2 instances"}},
		{"feeds", "feeds", []string{"paid", "runs", "memory@"}},
		{"store", "store", []string{"it does not say which", "5 streams with 3 replicas", "None has an end."}},
		{"log", "log", []string{"n2"}},
	}
	// The members keep trends, so a page that is opened now shows them.
	s.do(chromedp.Navigate(s.url + "#type/Account"))
	for _, chart := range []string{".plot[aria-label^='Turns a second']", ".plot[aria-label^='Time of a turn']"} {
		s.draws(chart)
	}
	s.do(chromedp.Reload())
	s.draws(".plot[aria-label^='Turns a second']")
	s.do(chromedp.Focus(".plot"))
	s.keys(kb.ArrowLeft + kb.ArrowRight)
	s.shows(".chart output", "turns ", "failed ")

	for _, p := range pages {
		evaluate[string](s, fmt.Sprintf("location.hash = %q", p.hash))
		s.shows("main", p.texts...)
		for _, width := range widths {
			for _, scheme := range []string{"light", "dark"} {
				s.look(width, scheme)
				name := fmt.Sprintf("%s-%d-%s", p.name, width, scheme)
				if got := evaluate[int](s, "document.documentElement.scrollWidth"); got > width {
					t.Errorf("%s is %d pixels wide", name, got)
				}
				if width != 768 {
					s.axe(name)
				}
				s.picture(name)
			}
		}
	}
	require.Zero(t, evaluate[int](s, "document.querySelectorAll('img').length"), "a name has become an element")

	// All times are shown in UTC, also after a reload.
	s.do(chromedp.Focus("#zone"))
	s.keys(kb.Enter)
	s.shows("#zone", "UTC")
	s.shows("main table", " UTC")
	s.do(chromedp.Reload())
	s.shows("#zone", "UTC")
	s.shows("main table", " UTC")
	t.Run("axe", func(t *testing.T) {
		if os.Getenv("AXE") == "" {
			t.Skip("AXE does not name the file axe.min.js of axe-core, so the pages were not checked with it")
		}
	})
}

// draws waits until a chart that the selector finds has a value.
func (s *scene) draws(selector string) {
	s.t.Helper()
	end := time.After(patience)
	for again := time.Tick(50 * time.Millisecond); ; {
		label := evaluate[string](s, fmt.Sprintf("document.querySelector(%q)?.getAttribute('aria-label') ?? ''", selector))
		if strings.Contains(label, "at most") {
			return
		}
		select {
		case <-again:
		case <-end:
			s.t.Fatalf("the chart %s has no value: %q", selector, label)
		}
	}
}

// TestKeyboard: Tab reaches each control of each page, and the control that has the focus is marked.
func TestKeyboard(t *testing.T) {
	s := show(t, 2, false, dashboard.Options{}, func(n *shard.Node) error {
		return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} })
	})
	s.load()
	s.shows("#health", "healthy")
	for _, hash := range []string{"overview", "members", "member/n1", "shards", "traffic", "entities", "type/Account", "feeds", "store", "log"} {
		evaluate[string](s, fmt.Sprintf("location.hash = %q", hash))
		s.shows("nav [aria-current]", "")
		evaluate[bool](s, `(() => { document.activeElement.blur(); window.reached = new Set(); window.wanted = [...document.querySelectorAll('a[href], button, input, select, [tabindex="0"]')].filter((e) => e.checkVisibility()); return true; })()`)
		note := `(() => {
			const e = document.activeElement;
			const style = getComputedStyle(e);
			window.missed = () => wanted.filter((e) => e.isConnected && e.checkVisibility() && !e.disabled && !reached.has(e) && !e.closest('tbody')).map((e) => e.outerHTML.slice(0, 80)).join('\n');
			if (e === document.body) return false;
			const again = reached.has(e);
			if (style.outlineStyle !== 'none' && style.outlineWidth !== '0px') reached.add(e);
			return again && missed() === '';
		})()`
		// When a table that has the focus is drawn again, Tab may go back, and come to a control twice
		// before it has been at all others. A control counts as reached once it was seen marked.
		for i := 0; !evaluate[bool](s, note); i++ {
			if i == 500 {
				t.Fatalf("%s: Tab does not come back, or does not reach and mark %s", hash, evaluate[string](s, "missed()"))
			}
			s.keys(kb.Tab)
		}
	}
	// The first control leads past the navigation.
	s.do(chromedp.Focus("#skip"))
	s.keys(kb.Enter)
	require.Equal(t, "view", evaluate[string](s, "document.activeElement.id"))
	require.Equal(t, "#log", evaluate[string](s, "location.hash"), "the view has changed")
}
