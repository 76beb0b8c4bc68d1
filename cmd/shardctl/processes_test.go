package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestUsageHasAllCommands: the page of all commands leaves none out.
func TestUsageHasAllCommands(t *testing.T) {
	for _, name := range names() {
		if name != "help" {
			require.Contains(t, usage, "\n  "+name+" ")
		}
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{"member": "members", "statu": "status", "entites": "entities", "dance": "", "rebalnce": "rebalance"} {
		require.Equal(t, want, nearest(word, names()), word)
	}
}

// TestProcesses shows processes, stacks and passivation.
func TestProcesses(t *testing.T) {
	t.Parallel()
	env, _, client := accounts(t)
	expect := func(args string, code int, stdout, stderr string) {
		t.Helper()
		o := shardctl(t, env, args)
		require.Equal(t, code, o.code, "%s: %s", args, o.stderr)
		require.Contains(t, o.stdout, stdout, args)
		require.Contains(t, o.stderr, stderr, args)
	}
	o := shardctl(t, env, "processes")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Regexp(t, `(?m)^\S+ +\S* +\d+s +[\d.]+ MiB +[\d.]+ MiB +(none|[\d.]+ MiB) +\d+ +\d+ +yes$`, o.stdout)
	expect("processes -json", exitOK, `"ready":true`, "")
	node := strings.Fields(strings.Split(o.stdout, "\n")[1])[0]
	expect("dump "+node, exitOK, "goroutine ", "")
	expect("dump nobody", exitFailed, "", "nobody")

	_, err := client.Ref("ann").Add(t.Context(), 5)
	require.NoError(t, err)
	o = shardctl(t, env, "clients")
	require.Regexp(t, `(?m)^CLIENT +MEMBERS\nweb +n[12]( n2)?$`, o.stdout)
	expect("clients -wide", exitOK, "\nweb#", "")
	expect("clients -template {{.members}}", exitOK, "[n", "")
	expect("passivate Account ann", exitOK, "has passivated Account/ann", "")
	expect("entities Account -active", exitOK, "Account has no such entities", "")
	expect("passivate Account ann", exitFailed, "", "the entity is not active")
	got, err := client.Ref("ann").Get(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 5, got)

	expect("wait", exitOK, "has settled", "")
	expect("wait -json", exitOK, `"settled": true`, "")
	expect("wait -timeout 1s", exitFailed, "", "the command did not end within 1s")
	expect("version", exitOK, "shardctl ", "")
	expect("member", exitUsage, "", `unknown command "member": did you mean members?`)
}

// TestProcessesRights: readers see processes; stacks and passivation are for operators.
func TestProcessesRights(t *testing.T) {
	t.Parallel()
	env, node := guarded(t, shard.Config{})
	_, err := fixture.NewAccountClient(node).Ref("ann").Add(t.Context(), 1)
	require.NoError(t, err)
	shardctl(t, env("bob"), "processes").check(t, "a reader", exitOK, "yes", "")
	shardctl(t, env("bob"), "wait").check(t, "a reader", exitOK, "has settled", "")
	for _, args := range []string{"passivate Account ann", "dump " + node.Cluster().Self.Name} {
		shardctl(t, env("bob"), args).check(t, args, exitFailed, "", "")
		shardctl(t, env("ann"), args).check(t, args, exitOK, "", "")
	}
}
