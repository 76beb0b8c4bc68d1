package browser

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/admin/dashboard"
	"github.com/shardgen/shardgen/transport/memory"
)

type object = map[string]any

// canned returns the answers about a cluster of 20 members with 1,000 shards, after an hour of
// load. Their names contain HTML, which the page must show as text.
func canned() map[string]any {
	now := time.Now()
	name := func(i int) string { return fmt.Sprintf("web-%d<i>%d", i, i) }
	var members []object
	processes := object{}
	value := func(f func(m float64) float64) (all []float64) {
		for i := range 60 {
			all = append(all, f(float64(i)))
		}
		return all
	}
	for i := range 20 {
		members = append(members, object{
			"name": name(i), "incarnation": fmt.Sprintf("%016x", i), "status": "up", "reachable": i != 7, "evidence": map[bool]string{true: "silent for 3s"}[i == 7], "age": i + 1,
			"roles": []string{"web"}, "hosts": []string{"Order"}, "shards": 50, "entities": 5000, "used": 0.2 * float64(i%5), "capacity": 2, "release": "v1.2.0", "zone": "abc"[i%3 : i%3+1],
		})
		processes[name(i)] = object{
			"rate": value(func(m float64) float64 { return 60 + 20*math.Sin(m/9+float64(i)) }), "used": value(func(m float64) float64 { return 0.4 + 0.2*math.Sin(m/9) }), "memory": value(func(float64) float64 { return 2e8 }),
		}
	}
	homes, used, entities := []int{}, []float64{}, []int{}
	for i := range 1000 {
		homes, entities = append(homes, i%20), append(entities, 100)
		used = append(used, []float64{0, 0.001, 0.02, 0.001, 0.1, 0.003, 0.3}[i*7919%7])
	}
	used[45], homes[46] = 0.9, -1
	var minutes []int64
	for i := range 60 {
		minutes = append(minutes, now.Truncate(time.Minute).Add(time.Duration(i-59)*time.Minute).Unix())
	}
	load := object{
		"rate": value(func(m float64) float64 { return 1200 + 400*math.Sin(m/9) }), "failed": value(func(m float64) float64 { return 20 + 15*math.Sin(m/4) }),
		"p50_seconds": value(func(m float64) float64 { return 0.0012 }), "p99_seconds": value(func(m float64) float64 { return 0.008 + 0.004*math.Sin(m/9) }),
		"commit_p99_seconds": value(func(m float64) float64 { return 0.006 }),
	}
	return map[string]any{
		"/api/cluster": object{
			"health": object{
				"cluster": "shop", "healthy": false, "members": 20, "types": 1, "shards": 1000, "moving": 1, "findings": []object{},
				"wrong": []string{name(7) + " is not reachable: silent for 3s (see whether it runs, and look at its log and its network)"}, "notes": []string{},
			},
			"at": now, "seen_by": name(0), "leader": name(0), "coordinator": name(1), "members": members, "singletons": []object{}, "counters": object{"frames sent": 1e6}, "events": []object{},
			"types":    []object{{"name": "Order", "shards": 1000, "homeless": 1, "waiting": 0, "entities": 100_000, "active": 80_000, "instances": 0, "wanted": 0, "durable": true, "used": 52}},
			"moves":    []object{{"type": "Order", "shard": 1003, "from": name(3), "to": name(4), "why": "fewer shards", "phase": "the state is sent", "seconds": 0.2}},
			"expiries": []object{{"node": name(2), "what": "the certificate <b>", "until": now.Add(300 * time.Hour), "seen": false}, {"node": name(3), "what": "the JWT", "until": now.Add(9000 * time.Hour), "seen": true}},
		},
		"/api/trends": object{"minutes": minutes, "all": load, "types": object{"Order": load}, "members": processes},
		"/api/shards": object{"type": "Order", "first": 1000, "homes": homes, "moving": []int{1003}, "used": used, "entities": entities},
		"/api/store": object{
			"stores": []object{{"store": "shop, 3 replicas", "members": []string{name(0), name(1)}}}, "faults": []object{},
			"checks": []object{{"name": "streams", "status": "fault", "text": "shop.l.1 <b>has no leader</b>", "do": "see its servers"}},
		},
		"/api/feeds": object{"feeds": []object{
			{"feed": "orders", "partition": 0, "stream": "ORDERS@1", "position": 20017, "lag": 3, "waiting": 3, "dead": 0, "missed": 0, "node": name(1), "written": now, "why": "", "stands": false},
			{"feed": "orders", "partition": 1, "stream": "ORDERS@1", "position": 417, "lag": nil, "waiting": 20, "dead": 4, "missed": 1, "node": name(2), "written": now.Add(-time.Hour), "why": "message 417 fails at Order/<b>: it is unknown", "stands": true},
		}},
		"/api/reminders": object{"late": 2, "soon": 30, "pending": 1000, "more": true, "first": []object{{"id": "<b>17", "due": now.Add(-time.Minute)}}},
		"/api/entities":  object{"entities": []object{{"id": "<b>17"}, {"id": `"\xff"`, "binary": true}}, "after": "PGI-MTc"},
		"/api/member":    object{"name": name(7), "known": false, "reasons": []string{}, "clients": []string{}, "findings": []object{{"text": "the store is full <b>", "severity": "fault", "do": "make room"}}, "hottest": []object{}},
	}
}

// TestThousandShards: the map of 1,000 shards at 20 members fits on a screen, groups shards by home, and its
// colours are loads.
func TestThousandShards(t *testing.T) {
	client, err := admin.Dial(t.Context(), admin.Options{Cluster: "shop", Transport: memory.NewBroker(memory.Options{}).Transport()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	page, answers := dashboard.Handler(client, dashboard.Options{}), canned()
	s := browse(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			page.ServeHTTP(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	s.look(1600, "dark")
	s.shows("main", "web-7<i>7 is not reachable")
	s.draws(".plot[aria-label^='Turns a second']")
	s.picture("overview")
	s.axe("overview")

	s.keys("3")
	s.shows(".groups", "no home", "web-0<i>0", "web-19<i>19", "50 shards")
	require.Equal(t, 21, evaluate[int](s, "document.querySelectorAll('.group').length"))
	require.Less(t, evaluate[int](s, "document.querySelector('.groups').clientHeight"), 800, "the map does not fit on a screen")
	colour := func(home, cell int) string {
		return evaluate[string](s, fmt.Sprintf(`(() => {
			const c = document.querySelector('canvas[data-home="%d"]');
			const size = 16, columns = Math.floor(c.clientWidth / size);
			const d = c.getContext('2d').getImageData(%[2]d %% columns * size + 4, Math.floor(%[2]d / columns) * size + 4, 1, 1).data;
			return '#' + [...d.slice(0, 3)].map((v) => v.toString(16).padStart(2, '0')).join('');
		})()`, home, cell))
	}
	of := func(name string) string {
		return evaluate[string](s, fmt.Sprintf("getComputedStyle(document.body).getPropertyValue('--%s').trim()", name))
	}
	require.Equal(t, of("load5"), colour(5, 2), "shard 1045 uses 0.9 processors")
	require.Equal(t, of("load0"), colour(0, 0), "shard 1000 is idle")
	require.Equal(t, of("bad"), colour(-1, 0), "shard 1046 has no home")
	for _, width := range widths {
		for _, scheme := range []string{"light", "dark"} {
			s.look(width, scheme)
			name := fmt.Sprintf("shards-%d-%s", width, scheme)
			require.LessOrEqual(t, evaluate[int](s, "document.documentElement.scrollWidth"), width, name)
			s.axe(name)
			s.picture(name)
		}
	}
	s.do(chromedp.Focus(".groups"))
	s.keys(kb.ArrowRight)
	s.shows("output", "Shard 1046 has no home")
	s.keys(kb.ArrowRight)
	s.shows("output", "Shard 1000 is at web-0<i>0, with 100 entities and 0 processors")

	// What is wrong is said, and names stay text.
	for hash, texts := range map[string][]string{
		"feeds":            {"1 of 2 partitions stand still", "not known", "message 417 fails at Order/<b>"},
		"store":            {"shop, 3 replicas", "<b>has no leader</b>", "the certificate <b>", "12 days", "when the member connected"},
		"type/Order":       {"2\nlate", "30\ndue within the hour", "1,000+\npending", "<b>17"},
		"entities":         {"<b>17", `"\xff"`, "there are more"},
		"members":          {"web-7<i>7", "not reachable", "silent for 3s"},
		"member/web-7<i>7": {"the store is full <b> (make room)", "silent for 3s"},
	} {
		evaluate[string](s, fmt.Sprintf("location.hash = %q", hash))
		s.shows("main", texts...)
		name := strings.NewReplacer("/", "-", "<i>", "").Replace(hash)
		for _, width := range []int{320, 1600} {
			s.look(width, "light")
			require.LessOrEqual(t, evaluate[int](s, "document.documentElement.scrollWidth"), width, name)
			s.axe(name)
			s.picture(fmt.Sprint(name, "-", width))
		}
	}
	require.Zero(t, evaluate[int](s, "document.querySelectorAll('main i:not([class]), main b:not(.bad):not(.tile b)').length"), "a name has become an element")
}
