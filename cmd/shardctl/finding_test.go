package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/fixture"
	"github.com/shardgen/shardgen/internal/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// answers are what the commands of docs/guide/finding.md must print, by command.
var answers = map[string]string{
	"status":                       `healthy|not reachable|is down`,
	"members":                      `n1.*up`,
	"events -at 02:14":             ``,
	"events -since 30m":            `member removed|downed`,
	"events -grep n3":              `n3.*(gone|silent|nobody listens)`,
	"events -level error":          ``,
	"events -grep told":            `told to request a home.*by=night`,
	"where Account ann":            `n[12]`,
	"entity Account ann -state":    `"Balance":\d+|a turn is under way`,
	"entity Account stuck":         `it runs Hold for .*called by client web`,
	"shards Account":               `256|active`,
	"moves":                        ``,
	"moves -since 1h":              `.`,
	"top":                          `Account\.Add`,
	"top -rows 3":                  `Account/ann`,
	"top -json":                    `"from": ?"client web"`,
	"top -every 1s":                `Account/stuck\.Hold`,
	"counters":                     `frames sent`,
	"doctor":                       `clocks`,
	"state Account":                ``,
	"store list":                   ``,
	"members -json":                `"coordinator"`,
	"permissions reader -name bob": `sh\.shop\.o\.bob\.get`,
}

// TestFindingOut asks the questions of the page on a cluster under load, which has a turn that hangs and
// has just lost a member.
func TestFindingOut(t *testing.T) {
	t.Parallel()
	server := natsproc.Start(t, "-js", "-sd", t.TempDir())
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	probe := &fixture.Probe{Entered: make(chan string, 1), Release: make(chan struct{})}
	var nodes []*shard.Node
	for i := range 3 {
		store, err := natsstore.Open(t.Context(), server.URL(), natsstore.Config{})
		require.NoError(t, err)
		t.Cleanup(store.Close)
		n := shard.New(shard.Config{Cluster: "shop", Name: fmt.Sprint("n", i+1), Transport: natstransport.New(server.URL()), Store: store, Logger: quiet})
		t.Cleanup(func() { _ = n.Close() })
		require.NoError(t, fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{Probe: probe} }))
		require.NoError(t, n.Start(t.Context()))
		nodes = append(nodes, n)
	}
	conn, err := shard.Dial(t.Context(), shard.Config{Cluster: "shop", Name: "web", Transport: natstransport.New(server.URL()), Logger: quiet})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	accounts := fixture.NewAccountClient(conn)
	env := map[string]string{"NATS_URL": server.URL(), "SHARD_CLUSTER": "shop"}
	for _, id := range []string{"ann", "stuck"} {
		o := shardctl(t, env, "pin Account "+id+" n1")
		o.check(t, "pin", exitOK, "is to live at n1", "")
	}
	_, err = accounts.Ref("ann", shard.Timeout(time.Minute)).Add(t.Context(), 1)
	require.NoError(t, err)
	calling := make(chan struct{}, 2)
	go func() {
		defer func() { calling <- struct{}{} }()
		_ = accounts.Ref("stuck", shard.Timeout(time.Hour)).Hold(t.Context()) // until the test ends
	}()
	go func() {
		defer func() { calling <- struct{}{} }()
		for t.Context().Err() == nil {
			_, _ = accounts.Ref("ann").Add(t.Context(), 1)
		}
	}()
	t.Cleanup(func() {
		<-calling
		<-calling
	})
	<-probe.Entered
	require.NoError(t, nodes[2].Close()) // as a kill
	require.Eventually(t, func() bool { return len(nodes[0].Cluster().Members) == 2 }, time.Minute, 50*time.Millisecond)

	shardctl(t, env, "pin Account ann n1 -name night").check(t, "pin", exitOK, "is to live at n1", "")
	page, err := os.ReadFile("../../docs/guide/finding.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| (.*\\?) \\| `shardctl (.*?)`").FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(rows), 20)
	for _, row := range rows {
		question, command := row[1], row[2]
		want, known := answers[command]
		require.True(t, known, "%q is not tested", command)
		o := shardctl(t, env, command)
		if command != "status" && command != "doctor" {
			require.Equal(t, exitOK, o.code, "%s: %s%s", command, o.stdout, o.stderr)
		}
		require.NotEqual(t, exitUsage, o.code, "%s: %s", command, o.stderr)
		require.Regexp(t, want, o.stdout, "%s (%s)", question, command)
		t.Logf("%s\n$ shardctl %s\n%s", question, command, strings.TrimSpace(o.stdout))
	}
}
