package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// quietLog is the log of nodes whose lines no test reads. It still formats the lines.
var quietLog = slog.New(slog.NewTextHandler(io.Discard, nil))

// transportOf returns a transport to the server that an environment names.
func transportOf(env map[string]string) *natstransport.Transport {
	return natstransport.New(env["NATS_URL"])
}

// accounts starts two members of a real broker that host accounts, and returns a client of them.
func accounts(t *testing.T) (env map[string]string, nodes []*shard.Node, client *fixture.AccountClient) {
	url := natsproc.Start(t).URL()
	for _, name := range []string{"n1", "n2"} {
		n := shard.New(shard.Config{
			Cluster: "shop", Name: name, Transport: natstransport.New(url), Gateway: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		t.Cleanup(func() { _ = n.Close() })
		require.NoError(t, fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }))
		require.NoError(t, n.Start(t.Context()))
		nodes = append(nodes, n)
	}
	conn, err := shard.Dial(t.Context(), shard.Config{
		Cluster: "shop", Name: "web", Transport: natstransport.New(url), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return map[string]string{"NATS_URL": url, "SHARD_CLUSTER": "shop"}, nodes, fixture.NewAccountClient(conn)
}

// TestOperatorsQuestions asks a live cluster the questions that its operators have, in order.
func TestOperatorsQuestions(t *testing.T) {
	t.Parallel()
	env, nodes, client := accounts(t)
	if _, err := client.Ref("ann").Add(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	expect := func(args string, code int, stdout, stderr string) outcome {
		o := shardctl(t, env, args)
		o.check(t, args, code, stdout, stderr)
		return o
	}
	require.Eventually(t, func() bool { return shardctl(t, env, "doctor").code == exitOK }, time.Minute, 100*time.Millisecond)
	expect("doctor", exitOK, "ok    clocks    all are within", "")
	expect("doctor", exitOK, "ok    rights    no member's log says", "")
	expect("doctor", exitOK, "ok    contracts all hosts of 1 types have the same contracts", "")

	require.Regexp(t, `(?s)NODE .*n1 .*TYPE +TURNS/S +FAILED/S +MEAN +P99.*COUNT +REASON`, expect("stats -every 100ms", exitOK, "", "").stdout)
	var load jsonStats
	require.NoError(t, json.Unmarshal([]byte(expect("stats -every 100ms -json", exitOK, `"methods":`, "").stdout), &load))
	require.Len(t, load.Counters, 2)
	require.True(t, strings.HasPrefix(load.Counters[0].Node, "n1#"), load.Counters[0].Node)
	require.Positive(t, len(load.Counters[0].Counters)+len(load.Counters[1].Counters), "a call has counted at its home")
	require.Equal(t, "shop", load.Cluster)
	expect("doctor", exitOK, "ok    interest  the broker reports messages", "")
	spy, err := nats.Connect(env["NATS_URL"])
	require.NoError(t, err)
	_, err = spy.SubscribeSync("sh.>")
	require.NoError(t, err)
	require.NoError(t, spy.Flush())
	expect("doctor", exitFailed, "WRONG interest  somebody subscribes", "")
	spy.Close()
	require.Eventually(t, func() bool { return shardctl(t, env, "doctor").code == exitOK }, time.Minute, 100*time.Millisecond)

	home := func() (node string) {
		at, err := nodes[0].Locate(t.Context(), "Account", "ann")
		require.NoError(t, err)
		return at.Node
	}
	other := map[string]string{"n1": "n2", "n2": "n1"}[home()]
	expect("pin Account ann", exitFailed, "", "give a NODE, or -withdraw")
	expect("pin Account ann n9", exitFailed, "", "no such member")
	expect("pin Account ann "+other, exitOK, "is to live at "+other, "")
	require.Eventually(t, func() bool { return home() == other }, time.Minute, 50*time.Millisecond)
	expect("where Account ann", exitOK, "by a pin (PinShards)", "")
	require.Eventually(t, func() bool { return strings.Contains(shardctl(t, env, "moves").stdout, "move committed") }, time.Minute, 50*time.Millisecond)
	expect("pin Account ann -withdraw", exitOK, "is placed by its type's allocation again", "")

	expect("pause -name ann", exitOK, "rebalancing is paused", "")
	expect("status", exitOK, "note:  rebalancing is paused by ann since ", "")
	expect("moves", exitOK, "rebalancing is paused by ann since ", "")
	expect("members", exitOK, "rebalancing is paused by ann since ", "")
	expect("where Account ann", exitOK, "; rebalancing is paused by ann since ", "")
	var at jsonPlace
	require.NoError(t, json.Unmarshal([]byte(expect("where Account ann -json", exitOK, `"since": "20`, "").stdout), &at))
	moved := fmt.Sprintf("Account/%d", at.Shard)
	expect("move Account n1", exitFailed, "", `"Account" is not a shard: give its type and number`)
	expect("move "+moved+" n9", exitFailed, "", "no such member")
	expect("move Account/1 n1", exitFailed, "", "Account has no shard 1")
	back := map[string]string{"n1": "n2", "n2": "n1"}[other]
	for _, to := range []string{back, other} {
		expect("move "+moved+" "+to, exitOK, moved+" moves to "+to, "")
		require.Eventually(t, func() bool { return home() == to }, time.Minute, 50*time.Millisecond)
		expect("move "+moved+" "+to+" -json", exitOK, `"node": "`+to+`"`, "")
	}
	expect("where Account ann", exitOK, " asks", "")
	expect("moves", exitOK, " asks", "")
	expect("events -grep told", exitOK, "told to move a shard by=", "")
	for _, c := range []string{"members -json", "moves -json"} {
		var v struct{ Pause *jsonPause }
		require.NoError(t, json.Unmarshal([]byte(expect(c, exitOK, "", "").stdout), &v))
		require.Equal(t, "ann", v.Pause.By, c)
	}
	expect("rebalance", exitFailed, "", "rebalancing is paused by ann")
	expect("events -grep told", exitOK, "told to pause rebalancing by=ann", "")
	expect("events -grep rebalancing", exitOK, "coordinator: rebalancing paused by ann", "")
	expect("resume -name bob -json", exitOK, `"result": "rebalancing is not paused"`, "")
	expect("rebalance", exitOK, "move", "")
	require.NotContains(t, expect("status", exitOK, "", "").stdout, "paused")

	expect("entity Account ann", exitOK, "bytes (-state shows it)", "")
	expect("entity Account ann -state", exitOK, `state: {"Balance":5,"Log":`, "")
	expect("call Account Add ann {\"n\":2}", exitOK, "7", "")
	var e jsonEntity
	require.NoError(t, json.Unmarshal([]byte(expect("entity Account ann -json", exitOK, "", "").stdout), &e))
	require.Equal(t, other, e.Node)
	require.True(t, e.Active)
	require.NotNil(t, e.InShard)
	expect("call Account Dance ann", exitFailed, "", "outcome: not executed")
	expect("call Nothing Dance ann -timeout 1s", exitFailed, "", "no member with Config.Gateway hosts Nothing")

	expect("events", exitOK, "coordinator: allocated Account (256 shards)", "")
	expect("events -grep pinned", exitOK, "coordinator: pinned Account", "")
	require.Empty(t, expect("events -level error", exitOK, "", "").stdout)
	require.Empty(t, expect("events -since 1ns", exitOK, "", "").stdout)
	expect("events -since -1s", exitUsage, "", "-since: -1s is after now")
	expect("events -at 02:14 -until 02:15", exitUsage, "", "give either -at alone")
	now := time.Now()
	expect("events -at "+now.Format(time.TimeOnly), exitOK, "coordinator: pinned Account", "")
	require.Empty(t, expect("events -at "+now.Add(-time.Hour).Format("2006-01-02T15:04:05"), exitOK, "", "").stdout)
	require.Empty(t, expect("events -until 1h", exitOK, "", "").stdout)
	var line jsonEvent
	first, _, _ := strings.Cut(expect("events -json", exitOK, "", "").stdout, "\n")
	require.NoError(t, json.Unmarshal([]byte(first), &line))
	require.NotEmpty(t, line.Text)
	require.Equal(t, 1, strings.Count(expect("events -grep up", exitOK, "", "").stdout, "member up member=n2"), "a line that both have is printed once")

	expect("drain -json "+other, exitOK, `"result":"has left","shards":0,"entities":0}`, "")
	expect("members", exitOK, "1 members", "")
}

// TestTop: top prints the rates of turns, and the entities and callers that make them.
func TestTop(t *testing.T) {
	t.Parallel()
	env, _, client := accounts(t)
	ctx, stop := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	calling.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			id := "ann"
			if n%4 == 0 {
				id = "bob"
			}
			if _, err := client.Ref(id).Add(ctx, 1); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
				return
			}
		}
	})
	defer calling.Wait()
	defer stop()
	var top clusterview.Rates
	o := shardctl(t, env, "top -json -every 500ms")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &top))
	require.Equal(t, "Add", top.Methods[0].Method)
	require.Len(t, top.Entities, 2)
	require.Equal(t, "ann", top.Entities[0].ID)
	require.Greater(t, top.Entities[0].Rate/top.Entities[1].Rate, 1.5, "3 by the calls, and about that by the sample")
	require.Equal(t, "client web", top.Callers[0].From)
	require.Positive(t, top.Entities[1].Busy)
	require.Len(t, top.Types, 1)
	require.InDelta(t, top.Methods[0].Rate, top.Types[0].Rate, 1e-9)
	require.Positive(t, top.Types[0].P99)
	require.LessOrEqual(t, top.Types[0].P99, top.Types[0].Longest*9/8+1e-7)
	shardctl(t, env, "top -every 100ms").check(t, "top", exitOK, "client web", "")
	shardctl(t, env, "top -every -1s").check(t, "top", exitUsage, "", "more than 0")
}

// TestCompletion: the scripts name the commands.
func TestCompletion(t *testing.T) {
	for shell := range completions {
		shardctl(t, nil, "completion "+shell).check(t, shell, exitOK, "shardctl "+completeCommand, "")
	}
	shardctl(t, nil, "completion tcsh").check(t, "tcsh", exitUsage, "", "bash|zsh|fish")
}

// TestComplete: the shells' scripts get commands, flags, and the names of members and types.
func TestComplete(t *testing.T) {
	t.Parallel()
	env, _, _ := accounts(t)
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{nil, "store\npermissions\ncompletion\nman\nversion\nhelp\nstatus\n"},
		{[]string{"do"}, "doctor\ndown\n"},
		{[]string{"store", "ver"}, "verify\n"},
		{[]string{"completion", ""}, "bash\nfish\nzsh\n"},
		{[]string{"permissions", "re"}, "reader\n"},
		{[]string{"pin", "-wi"}, "-wide\n-withdraw\n"},
		{[]string{"shards", ""}, "Account\n"},
		{[]string{"pin", "-wide", "Account", "ann", ""}, "n1\nn2\n"},
		{[]string{"drain", "-timeout", "5s", "n2"}, "n2\n"},
		{[]string{"drain", "-timeout", ""}, ""},
		{[]string{"entity", "Account", ""}, ""},
		{[]string{"call", "Acc"}, "Account\n"},
		{[]string{"call", "Account", "E"}, "Echo\nEnd\nExit\n"},
		{[]string{"call", "-timeout", "5s", "Account", "-name", "bob", "Add"}, "Add\n"},
		{[]string{"call", "Nothing", ""}, ""},
		{[]string{"call", "Account", "Add", ""}, ""},
		{[]string{"status", ""}, ""},
		{[]string{"dance", ""}, ""},
	} {
		var out bytes.Buffer
		code := run(t.Context(), append([]string{completeCommand}, tt.words...), func(key string) string { return env[key] }, &out, io.Discard)
		require.Equal(t, exitOK, code)
		if len(tt.words) == 0 {
			require.True(t, strings.HasPrefix(out.String(), tt.want), out.String())
			continue
		}
		require.Equal(t, tt.want, out.String(), "%q", tt.words)
	}
}
