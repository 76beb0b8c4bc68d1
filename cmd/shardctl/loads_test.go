package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
