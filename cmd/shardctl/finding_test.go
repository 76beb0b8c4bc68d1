package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// handoffTimeout is how long a move of the test waits for the turn that hangs.
const handoffTimeout = 2 * time.Second

// A question is what an operator asks during a fault.
type question struct {
	at   string // while this lasts
	want string // must be printed, to stdout or stderr
}

// The faults, in the order in which they begin. All but the first last until the test ends.
const (
	aMoveWaits   = "a shard moves, and the turn of its entity hangs"
	aMemberHangs = "a member stands still, calls wait for a type without hosts, one entity is overloaded, and a turn hangs"
)

// questions are those of docs/guide/finding.md, by command.
var questions = map[string]question{
	"moves":                        {aMoveWaits, `(?m)^Account/\d+ n1→n2 for .*(PinShards).*:`},
	"status":                       {aMemberHangs, `NOT healthy(?s:.*)wrong: n3#\w+ is not reachable: .*silent(?s:.*)wrong: Fine: no member hosts it, so calls of it wait: 1`},
	"status -json":                 {aMemberHangs, `"check": "cluster",\s*"severity": "fault",\s*"since": "20.*",\s*"text": "n3#\w+ is not reachable`},
	"members":                      {aMemberHangs, `n3 +up .*no: .*silent(?s:.*)Chief +n1`},
	"events -at 02:14":             {aMemberHangs, `pinned Account(?s:.*)move resumed(?s:.*)member unreachable member=n3`},
	"events -since 30m":            {aMemberHangs, `member.*unreachable|unreachable.*member`},
	"events -grep n3":              {aMemberHangs, `n3.*silent`},
	"events -level error":          {aMemberHangs, `(?i)panic`},
	"events -grep told":            {aMemberHangs, `told to pin a shard.*by=night`},
	"where Account ann":            {aMemberHangs, `is at n1 under epoch .*\nwhy: .*(PinShards)`},
	"entity Account ann -state":    {aMemberHangs, `"Balance":\d+|a turn is under way`},
	"entity Account stuck":         {aMemberHangs, `it has run Hold for .*called by client web`},
	"shards Account":               {aMemberHangs, `active(?s:.*)not all members have answered: \[n3#`},
	"shards Invoice":               {aMemberHangs, `no member hosts the type Fine, and 1 calls of members wait for it`},
	"moves -since 1h":              {aMemberHangs, `move resumed .*Account.*`},
	"top":                          {aMemberHangs, `Account\.Add`},
	"top -rows 3":                  {aMemberHangs, `Account/ann`},
	"top -json":                    {aMemberHangs, `"from": ?"client web",\s*"type": "Account",\s*"id": "ann"`},
	"top -every 1s":                {aMemberHangs, `Account/stuck\.Hold`},
	"counters":                     {aMemberHangs, `frames sent(?s:.*)n3#\w+ does not answer`},
	"doctor":                       {aMemberHangs, `WRONG cluster +n3#\w+ is not reachable(?s:.*)WRONG answers +n3`},
	"doctor -store shardgen":       {aMemberHangs, `ok    jetstream JetStream answers(?s:.*)ok    streams +9 streams of shardgen`},
	"state Account":                {aMemberHangs, `no call has found|n3#`},
	"reminders Account":            {aMemberHangs, `no entity of Account has reminders|did not answer`},
	"store list -store shardgen":   {aMemberHangs, `Wallet +shop +64 +1 `},
	"members -json":                {aMemberHangs, `"singletons": (?s:.*)"name": "Chief",\s*"node": "n1#`},
	"permissions reader -name bob": {aMemberHangs, `sh\.shop\.o\.bob\.get`},
}

// rowsOfFinding are the questions and the commands of the page.
func rowsOfFinding(t *testing.T) [][]string {
	page, err := os.ReadFile("../../docs/guide/finding.md")
	require.NoError(t, err)
	return regexp.MustCompile("(?m)^\\| (.*\\?) \\| `shardctl (.*?)`").FindAllStringSubmatch(string(page), -1)
}

// answers reports whether o holds the answer to the question of that command.
func answers(command string, o outcome) bool {
	return regexp.MustCompile(questions[command].want).MatchString(o.stdout + o.stderr)
}

// TestFindingOut asks each question of docs/guide/finding.md while the fault lasts that the
// question is about.
func TestFindingOut(t *testing.T) {
	t.Parallel()
	rows := rowsOfFinding(t)
	require.GreaterOrEqual(t, len(rows), 20)
	for _, row := range rows {
		require.Contains(t, slices.Collect(maps.Keys(questions)), row[2], "%s: it is not tested", row[1])
	}
	server := natsproc.Start(t, "-js", "-sd", t.TempDir())
	env := map[string]string{"NATS_URL": server.URL(), "SHARD_CLUSTER": "shop"}
	probe := &fixture.Probe{Entered: make(chan string, 1), Release: make(chan struct{})}
	var nodes []*shard.Node
	for _, name := range []string{"n1", "n2"} {
		store, err := natsstore.Open(t.Context(), server.URL(), natsstore.Config{})
		require.NoError(t, err)
		t.Cleanup(store.Close)
		n := shard.New(memberConfig(server.URL(), name, store))
		t.Cleanup(func() { _ = n.Close() })
		require.NoError(t, bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }))
		require.NoError(t, hostAll(n, probe))
		require.NoError(t, n.Start(t.Context()))
		nodes = append(nodes, n)
	}
	conn, err := shard.Dial(t.Context(), shard.Config{Cluster: "shop", Name: "web", Transport: transportOf(env), Logger: quietLog})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	accounts := fixture.NewAccountClient(conn)
	_, err = accounts.Ref("ann", shard.Timeout(time.Minute)).Add(t.Context(), 1)
	require.NoError(t, err)
	_, err = bank.NewWalletClient(conn).Ref("v1", shard.Timeout(time.Minute)).Add(t.Context(), 1)
	require.NoError(t, err)
	at := time.Now()
	for _, id := range []string{"ann", "stuck", "wild"} {
		shardctl(t, env, "pin Account "+id+" n1 -name night").check(t, "pin", exitOK, "is to live at n1", "")
		require.Eventually(t, func() bool {
			p, err := nodes[0].Locate(t.Context(), "Account", id)
			return err == nil && p.Node == "n1"
		}, time.Minute, 20*time.Millisecond)
	}
	third := startMember(t, server.URL(), "n3") // n1 and n2 have logged the pins
	_ = accounts.Ref("wild").Panic(t.Context(), "a turn that panics")
	var calling sync.WaitGroup
	t.Cleanup(calling.Wait)
	calling.Go(func() { _ = accounts.Ref("stuck", shard.Timeout(time.Hour)).Hold(t.Context()) })
	calling.Go(func() {
		for t.Context().Err() == nil {
			_, _ = accounts.Ref("ann").Add(t.Context(), 1)
		}
	})
	<-probe.Entered
	ask := func(when string) {
		var asking sync.WaitGroup
		asked := map[string]outcome{}
		var mu sync.Mutex
		for _, row := range rows {
			if questions[row[2]].at != when {
				continue
			}
			command := strings.NewReplacer("02:14", at.Format("15:04"), "Invoice", "Fine").Replace(row[2]) // no member hosts Fine
			asking.Go(func() {
				o := shardctl(t, env, command)
				for end := time.Now().Add(time.Minute); !answers(row[2], o) && time.Now().Before(end); { // an answer shows one moment
					o = shardctl(t, env, command)
				}
				mu.Lock()
				defer mu.Unlock()
				asked[row[2]] = o
			})
		}
		asking.Wait()
		for command, o := range asked { //arch:order-free each is checked alone
			assert.NotEqual(t, exitUsage, o.code, "%s: %s", command, o.stderr)
			assert.True(t, answers(command, o), "%s: want %s", command, questions[command].want)
			t.Logf("$ shardctl %s\n%s%s", command, o.stdout[:min(len(o.stdout), 1000)], o.stderr)
		}
	}
	shardctl(t, env, "pin Account stuck n2").check(t, "pin", exitOK, "is to live at n2", "")
	begun := regexp.MustCompile(`(?m)^Account/\d+ n1→n2 for .*PinShards`) // rebalancing has moved others that way
	require.Eventually(t, func() bool { return begun.MatchString(shardctl(t, env, "moves").stdout) }, time.Minute, 50*time.Millisecond, "the move begins")
	ask(aMoveWaits)
	require.Eventually(t, func() bool { return strings.Contains(shardctl(t, env, "moves").stdout, "move resumed") }, time.Minute, 50*time.Millisecond, "the move is given up")

	calling.Go(func() {
		_, _ = fixture.NewFineClient(nodes[0]).Ref("x", shard.Timeout(time.Hour)).Echo(t.Context(), nil)
	})
	stop(t, third)
	shardctl(t, env, "where Account ann").check(t, "a member that hangs unnoticed does not hide the others", exitOK, "is at n1", "")
	noticed := func(n *shard.Node) bool {
		return slices.ContainsFunc(n.Cluster().Members, func(m shard.Member) bool { return !m.Reachable })
	}
	require.Eventually(t, func() bool { return noticed(nodes[0]) && noticed(nodes[1]) }, time.Minute, 50*time.Millisecond)
	ask(aMemberHangs)
}
