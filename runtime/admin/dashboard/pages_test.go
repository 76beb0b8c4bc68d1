package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
)

// TestTrends: a new viewer gets the last hour, which the members keep, and members are asked for all of
// it once.
func TestTrends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := newHandler(f, Options{})
		trends := get[clusterview.Trends](t, h, "/api/trends")
		require.Len(t, trends.Minutes, 60)
		require.InDelta(t, 1, *trends.Types["Cart"].Rate[29], 1e-9)
		require.InDelta(t, 2, *trends.All.Rate[59], 1e-9)
		require.InDelta(t, 0.1, *trends.All.Failed[29], 1e-9)
		require.InDelta(t, 0.5, *trends.Members["n1"].Used[29], 1e-9)
		for range 120 {
			time.Sleep(time.Second)
			get[snapshot](t, h, "/api/cluster")
		}
		trends = get[clusterview.Trends](t, h, "/api/trends")
		require.NotNil(t, trends.All.Rate[27], "what was kept is gone")
		require.NotNil(t, trends.All.Rate[58])
		require.EqualValues(t, 1, f.whole.Load(), "questions for the whole hour")
		require.InDelta(t, 12, f.trends.Load(), 3, "questions in two minutes")
		time.Sleep(time.Hour)
		trends = get[clusterview.Trends](t, h, "/api/trends")
		require.EqualValues(t, 2, f.whole.Load(), "nobody looked for an hour")
		require.NotNil(t, trends.All.Rate[29])
		require.Nil(t, trends.Members["n2"].Rate[59], "an older member has none")
	})
}

func TestMember(t *testing.T) {
	h := newHandler(&fake{}, Options{})
	p := get[process](t, h, "/api/member?name=n1")
	require.True(t, p.Known)
	require.Equal(t, []any{"v1", "b", 0.5, "shop, 3 replicas"}, []any{p.Release, p.Zone, p.Used, p.Store})
	require.Equal(t, []hotShard{{"Cart", 4, 0.25}}, p.Hottest)
	require.Equal(t, "the store is full", p.Findings[0].Text)
	require.False(t, get[process](t, h, "/api/member?name=n9").Known)
	c := get[snapshot](t, h, "/api/cluster")
	require.Equal(t, []any{0.5, 2.0, "v1", "b"}, []any{c.Members[0].Used, c.Members[0].Capacity, c.Members[0].Release, c.Members[0].Zone})
	require.Equal(t, []string{"the certificate", "the JWT"}, []string{c.Expiries[0].What, c.Expiries[1].What}, "the first to end is the first")
}

// TestEntities: pages follow each other, also over ids that are not text.
func TestEntities(t *testing.T) {
	h := newHandler(&fake{}, Options{})
	seen, after := map[string]bool{}, ""
	for range 3 {
		p := get[entityPage](t, h, "/api/entities?type=Cart&prefix=de%20&active=1&after="+url.QueryEscape(after))
		require.Empty(t, p.Error)
		for _, e := range p.Entities {
			require.False(t, seen[e.ID], e.ID)
			seen[e.ID] = true
		}
		after = p.After
	}
	require.Empty(t, after)
	require.Len(t, seen, 250)
	first := get[entityPage](t, h, "/api/entities?type=Cart").Entities
	require.Equal(t, []entityRow{{"<b>", false}, {`"001\xff"`, true}}, first[:2])
	require.Contains(t, get[entityPage](t, h, "/api/entities?type=Boat").Error, "no member hosts Boat")
	for _, bad := range []string{"/api/entities", "/api/entities?type=Cart&after=%2B"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, bad, nil))
		require.Equal(t, http.StatusBadRequest, w.Code, bad)
	}
}

func TestReminders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := newHandler(f, Options{})
		p := get[reminderPage](t, h, "/api/reminders?name=Cart")
		for range 10 {
			p = get[reminderPage](t, h, "/api/reminders?name=Cart")
		}
		require.EqualValues(t, 1, f.reminders.Load(), "viewers do not share the questions")
		require.Equal(t, []any{2, 3, 5, false}, []any{p.Late, p.Soon, p.Pending, p.More})
		require.Len(t, p.First, 5)
		p = get[reminderPage](t, h, "/api/reminders?name=Many")
		require.Equal(t, []any{remindersCounted, true, remindersShown}, []any{p.Pending, p.More, len(p.First)})
		require.Contains(t, get[reminderPage](t, h, "/api/reminders?name=Chief").Error, "Chief has no reminders")
		for _, path := range []string{"/api/reminders?name=Boat", "/api/pool?name=Boat"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			require.Equal(t, http.StatusNotFound, w.Code, "no member hosts it")
		}
		require.Equal(t, poolAnswer{Why: "4 of 5 instances"}, get[poolAnswer](t, h, "/api/pool?name=Cart"))
	})
}

// TestFeeds: a feed counts as standing still if it says why, or if it is behind and has not
// advanced for long.
func TestFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := newHandler(f, Options{})
		a := get[feedsAnswer](t, h, "/api/feeds")
		var got []string
		for _, r := range a.Feeds {
			lag := "?"
			if r.Lag != nil {
				lag = fmt.Sprint(*r.Lag)
			}
			got = append(got, fmt.Sprint(lag, " ", r.Stands))
		}
		require.Equal(t, []string{"3 false", "0 false", "? true", "7 true", "? true"}, got)
		for range 10 {
			get[feedsAnswer](t, h, "/api/feeds")
		}
		require.EqualValues(t, 1, f.feeds.Load(), "viewers do not share the questions")
	})
}

func TestStore(t *testing.T) {
	asked := 0
	h := newHandler(&fake{}, Options{Checks: func(context.Context) []Check {
		asked++
		return []Check{{Name: "streams", Status: "fault", Text: "shop.l.1 has no leader", Do: "see the servers"}}
	}})
	for range 3 {
		a := get[storeAnswer](t, h, "/api/store")
		require.Equal(t, []storeRow{{"shop, 3 replicas", []string{"n1"}}, {"", []string{"n2"}}}, a.Stores)
		require.Equal(t, "the store is full", a.Faults[0].Text)
		require.Equal(t, "shop.l.1 has no leader", a.Checks[0].Text)
	}
	require.Equal(t, 1, asked)
	require.Empty(t, get[storeAnswer](t, newHandler(&fake{}, Options{}), "/api/store").Checks)
}
