package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// TestExamineRights: a right that the broker has refused to a member is a fault, with the member and the
// remedy.
func TestExamineRights(t *testing.T) {
	line := func(text string) admin.Event {
		return admin.Event{Node: web1, Line: admin.Line{Time: time.Unix(1, 0), Text: text, Attrs: `cause="Permissions Violation for Publish to \"sh.shop.m.all\""`}}
	}
	found := examineRights([]admin.Event{line("member up")}, nil)
	require.Len(t, found, 1)
	require.True(t, found[0].OK)
	found = examineRights([]admin.Event{line("member up"), line(deniedLine)}, nil)
	require.Len(t, found, 1)
	require.False(t, found[0].OK)
	require.Contains(t, found[0].Text, "web-1 at ")
	require.Contains(t, found[0].Text, "sh.shop.m.all")
	require.Contains(t, found[0].Do, "shardctl permissions worker")
	require.False(t, examineRights(nil, errors.New("web-2 does not answer"))[0].OK)
}

// otherAccounts is the fixture's type as the program of another version has it.
func otherAccounts(contract string) codegen.Host {
	return codegen.Host{
		Kind: codegen.Kind{
			Name: "Account", Package: "github.com/shardgen/shardgen/internal/fixture", Shards: 256, HashName: "xxh64", Stateful: true,
			Methods: []string{"Get"}, Contract: contract,
		},
		New: func() any { return &fixture.Account{} },
		Dispatch: map[string]codegen.Method{
			"Get": func(_ context.Context, _ any, _, out []byte) ([]byte, error) { return out, nil },
		},
	}
}

// TestDoctorComparesContracts: members of a real broker whose programs have different contracts of one
// type, and one of an older shardgen that reports no hash.
func TestDoctorComparesContracts(t *testing.T) {
	t.Parallel()
	env, _, _ := accounts(t) // n1 and n2
	say := func() string {
		var found []string
		for line := range strings.Lines(shardctl(t, env, "doctor").stdout) {
			if strings.Contains(line, "contracts ") {
				found = append(found, line)
			}
		}
		return strings.Join(found, "")
	}
	require.Eventually(t, func() bool {
		return strings.Contains(say(), "ok    contracts all hosts of 1 types have the same contracts")
	}, time.Minute, 50*time.Millisecond)
	for name, contract := range map[string]string{"n3": "00000000deadbeef", "n4": ""} {
		n := shard.New(shard.Config{Cluster: "shop", Name: name, Transport: transportOf(env), Logger: quietLog})
		t.Cleanup(func() { _ = n.Close() })
		require.NoError(t, n.Host(otherAccounts(contract)))
		require.NoError(t, n.Start(t.Context()))
	}
	require.Eventually(t, func() bool { return strings.Contains(say(), "n4") && strings.Contains(say(), "n3") }, time.Minute, 50*time.Millisecond)
	got := say()
	t.Log(got)
	require.Regexp(t, `(?m)^WRONG contracts Account has different contracts: [0-9a-f]{16} at n1, n2; 00000000deadbeef at n3$`, got)
	require.Contains(t, got, "WRONG contracts Account.Add is unknown at n3, n4\n")
	require.Contains(t, got, "-     contracts no hash of a contract comes from n4, so that its methods alone are compared\n")
	require.NotContains(t, got, "Account.Get")
}
