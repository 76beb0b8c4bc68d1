package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestPool lists and sizes a pool, and calls its instances through a gateway.
func TestPool(t *testing.T) {
	t.Parallel()
	url := natsproc.Start(t).URL()
	env := map[string]string{"NATS_URL": url, "SHARD_CLUSTER": "shop"}
	for _, name := range []string{"n1", "n2"} {
		n := shard.New(shard.Config{Cluster: "shop", Name: name, Transport: natstransport.New(url), Gateway: true, Logger: quietLog})
		t.Cleanup(func() { _ = n.Close() })
		require.NoError(t, fixture.HostCrew(n, func() *fixture.Crew { return &fixture.Crew{Node: name} }, shard.PoolSize(1, 4), shard.PerNode(2)))
		require.NoError(t, fixture.HostCashier(n, func() *fixture.Cashier { return &fixture.Cashier{} }))
		require.NoError(t, n.Start(t.Context()))
	}
	expect := func(args string, code int, stdout, stderr string) outcome {
		o := shardctl(t, env, args)
		o.check(t, args, code, stdout, stderr)
		return o
	}
	instances := func(n int) (p jsonPool) {
		t.Helper()
		require.Eventually(t, func() bool {
			o := shardctl(t, env, "pool Crew -json")
			return o.code == exitOK && json.Unmarshal([]byte(o.stdout), &p) == nil && len(p.Instances) == n
		}, time.Minute, 50*time.Millisecond)
		return p
	}
	instances(1)
	expect("pool Crew 3", exitOK, "INSTANCE", "")
	for i, one := range instances(3).Instances {
		require.Equal(t, i, one.Index)
		require.NotEmpty(t, one.Node)
	}
	expect("pool Crew", exitOK, "3 instances at 2 members, and 3 wanted: 1 for failures, 3 as operators ask, and 1 to 4", "")
	expect("where Crew 2", exitOK, "by circle", "")
	require.Eventually(t, func() bool { return shardctl(t, env, "status").code == exitOK }, time.Minute, 50*time.Millisecond)
	expect("call Crew Work any {\"d\":1}", exitOK, "result1", "")
	expect("call Crew Where 2", exitOK, `"index":2,"count":3`, "")
	expect("pool Crew many", exitFailed, "", "is not a number of instances")
	expect("pool Cashier", exitFailed, "", "Cashier")
	expect("pool Cashier 2", exitFailed, "", "Cashier is not a pool")
	expect("pool Nothing 2", exitFailed, "", "Nothing")
}

// TestLoad prints the load of a member that has not been measured yet.
func TestLoad(t *testing.T) {
	t.Parallel()
	env, _, _ := accounts(t)
	o := shardctl(t, env, "load")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Regexp(t, `(?m)^NODE +ZONE +USED +OF +LOAD +GC +MEMORY +HOTTEST SHARDS$`, o.stdout)
	require.Regexp(t, `(?m)^\S+ +0\.00 +[\d.]+ +0% +0% +(no limit|\d+%)`, o.stdout)
	o = shardctl(t, env, "load -json")
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Regexp(t, `"capacity":[\d.]+`, o.stdout)
}
