package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/ops/verdict"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/codegen"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// TestDeniedRights: a right that the broker has refused to a member is a fault. The fault names the
// member and the remedy.
func TestDeniedRights(t *testing.T) {
	line := func(text string) admin.Event {
		return admin.Event{Node: web1, Line: admin.Line{Time: time.Unix(1, 0), Text: text, Attrs: `cause="Permissions Violation for Publish to \"sh.shop.m.all\""`}}
	}
	judge := func(lines []admin.Event, err error) operator.Finding {
		var s verdict.Snapshot
		noteRights(&s, lines, err)
		found := verdict.Judge(s)
		require.Len(t, found, 1)
		return found[0]
	}
	require.Equal(t, operator.Fine, judge([]admin.Event{line("member up")}, nil).Severity)
	found := judge([]admin.Event{line("member up"), line(deniedLine)}, nil)
	require.Equal(t, operator.Fault, found.Severity)
	require.Contains(t, found.Text, "web-1 at ")
	require.Contains(t, found.Text, "sh.shop.m.all")
	require.Contains(t, found.Do, "shardctl permissions worker")
	require.Equal(t, operator.Fault, judge(nil, errors.New("web-2 does not answer")).Severity)
}

// otherAccounts is the fixture's type as the program of another version has it.
func otherAccounts(contract string) codegen.Host {
	return codegen.Host{
		Kind: codegen.Kind{
			Name: "Account", Package: "github.com/shardgen/shardgen/internal/test/fixture", Shards: 256, HashName: "xxh64", Stateful: true,
			Methods: []string{"Get"}, Contract: contract,
		},
		New: func() any { return &fixture.Account{} },
		Dispatch: map[string]codegen.Method{
			"Get": func(_ context.Context, _ any, _, out []byte) ([]byte, error) { return out, nil },
		},
	}
}

// TestDoctorComparesContracts: the programs of members of a real broker have different contracts of
// one type. One member runs an older shardgen, which reports no hash.
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
	require.Contains(t, got, "-     contracts no contract hash from n4, so only the methods are compared\n")
	require.NotContains(t, got, "Account.Get")
}

// startWallets starts a member that hosts durable entities, with a store of its own.
func startWallets(t *testing.T, url, name string, c natsstore.Config) *shard.Node {
	t.Helper()
	store, err := natsstore.Open(t.Context(), url, c)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	n := shard.New(shard.Config{Cluster: "shop", Name: name, Transport: transportOf(map[string]string{"NATS_URL": url}), Logger: quietLog, Store: store})
	t.Cleanup(func() { _ = n.Close() })
	require.NoError(t, bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }))
	require.NoError(t, n.Start(t.Context()))
	return n
}

// TestDoctorLooksAtJetStream: on a real server, doctor notices a stream that is nearly full, streams with
// fewer replicas than the store's config asks for, an account that is nearly full, and JetStream off.
func TestDoctorLooksAtJetStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "nats.conf")
	configure := func(limits string) {
		text := fmt.Sprintf("jetstream { store_dir: %q }\naccounts { A { users: [{user: a, password: a}], jetstream: { %s } } }\nno_auth_user: a\n", dir, limits)
		if limits == "" {
			text = "accounts { A { users: [{user: a, password: a}] } }\nno_auth_user: a\n"
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	configure("max_streams: 100")
	server := natsproc.Start(t, "-c", path)
	restart := func(limits string) {
		configure(limits)
		require.NoError(t, server.Kill())
		require.NoError(t, server.Start())
	}
	env := map[string]string{"NATS_URL": server.URL(), "SHARD_CLUSTER": "shop"}
	eventually := func(text string) {
		t.Helper()
		var o outcome
		require.Eventually(t, func() bool {
			o = shardctl(t, env, "doctor")
			return strings.Contains(o.stdout, text)
		}, time.Minute, 100*time.Millisecond, "doctor says %s", text)
		t.Logf("$ shardctl doctor\n%s", o.stdout)
	}
	n := startWallets(t, server.URL(), "n1", natsstore.Config{Partitions: 1})
	_, err := bank.NewWalletClient(n).Ref("v1", shard.Timeout(time.Minute)).Add(t.Context(), 1)
	require.NoError(t, err)
	eventually("ok    jetstream JetStream answers, and the account is below its limits")
	eventually("ok    streams   3 streams of shardgen, with ")

	nc, err := nats.Connect(server.URL())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	limit := func(spare float64) {
		s, err := js.Stream(t.Context(), "shardgen_Wallet_log_0")
		require.NoError(t, err)
		config := s.CachedInfo().Config
		if config.MaxBytes = -1; spare > 0 {
			config.MaxBytes = int64(float64(s.CachedInfo().State.Bytes)*spare) + 1
		}
		_, err = js.UpdateStream(t.Context(), config)
		require.NoError(t, err)
	}
	limit(1.2)
	eventually("WRONG streams   shardgen_Wallet_log_0 has ")
	eventually("→ nats stream edit shardgen_Wallet_log_0 --max-bytes -1")
	limit(100)
	eventually("ok    streams   3 streams of shardgen, with ")

	startWallets(t, server.URL(), "n2", natsstore.Config{Replicas: 3})
	eventually("WRONG streams   shardgen_Wallet_log_0 has 1 replicas, and Config.Replicas of the members' store is 3\n")
	eventually("→ nats stream edit shardgen_keys --replicas 3")

	restart("max_streams: 3")
	eventually("WRONG jetstream the account has 3 of 3 streams")
	restart("")
	eventually("WRONG jetstream JetStream ")
	require.Equal(t, exitFailed, shardctl(t, env, "doctor").code)
}

// TestDoctorWithoutRights: an operator without the rights for it cannot check JetStream. That is no
// fault. The rights that shardctl permissions reader -store prints suffice.
func TestDoctorWithoutRights(t *testing.T) {
	t.Parallel()
	server, err := hostile.Guard(t.TempDir(), map[string]rights.Rights{
		"worker": rights.Worker("shop", "shardgen"), "bob": rights.Reader("shop", "bob"),
		"eve": rights.Doctor(rights.Reader("shop", "eve"), "eve"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })
	n := startWallets(t, hostile.URL(server, "worker"), "n1", natsstore.Config{})
	_, err = bank.NewWalletClient(n).Ref("v1", shard.Timeout(time.Minute)).Add(t.Context(), 1)
	require.NoError(t, err)
	env := func(user string) map[string]string {
		return map[string]string{"NATS_URL": hostile.URL(server, user), "SHARD_CLUSTER": "shop", "SHARD_OPERATOR": user}
	}
	require.Eventually(t, func() bool { return shardctl(t, env("bob"), "doctor").code == exitOK }, time.Minute, 100*time.Millisecond)
	o := shardctl(t, env("bob"), "doctor")
	o.check(t, "a reader", exitOK, "-     jetstream not checked: ", "")
	require.Regexp(t, `Permissions Violation for (Publish|Subscription)`, o.stdout)
	require.Contains(t, o.stdout, "→ grant the rights of shardctl permissions reader -cluster shop -name NAME -store STORE")
	shardctl(t, env("eve"), "doctor").check(t, "a reader who may ask JetStream", exitOK, "ok    streams   9 streams of shardgen, with ", "")
	shardctl(t, env("eve"), "doctor -store other").check(t, "a store that is not there", exitFailed, "WRONG streams   there is no stream of other in this account", "")
	shardctl(t, env("eve"), "doctor -store a.b").check(t, "no name of a store", exitUsage, "", "store name")
}

// TestStreamOf: streamOf takes over what a server says of a stream.
func TestStreamOf(t *testing.T) {
	var s jetstream.StreamInfo
	require.NoError(t, json.Unmarshal([]byte(`{"config": {"name": "s", "num_replicas": 3, "max_msgs": 10, "max_bytes": 99}, "state": {"messages": 8, "bytes": 7},
		"cluster": {"leader": "s1", "replicas": [{"name": "s2", "offline": true, "lag": 7}, {"name": "s3", "current": true, "active": 5}]}}`), &s))
	require.Equal(t, verdict.Stream{
		Name: "s", Leader: "s1", Clustered: true, Replicas: 3, Bytes: 7, Messages: 8, MaxBytes: 99, MaxCount: 10,
		Peers: []verdict.Peer{{Name: "s2", Offline: true, Lag: 7}, {Name: "s3", Current: true, Silent: 5}},
	}, streamOf(&s))
	s.Cluster = nil
	require.False(t, streamOf(&s).Clustered)
}

// TestAccountLimits: accountLimits returns the limits of an account, also those of its tiers.
func TestAccountLimits(t *testing.T) {
	text := func(a jetstream.AccountInfo) (all []string) {
		for _, f := range verdict.Judge(verdict.Snapshot{JetStream: &verdict.JetStream{Limits: accountLimits(a), Bytes: a.Store}}) {
			if f.Check == verdict.JetStreams {
				all = append(all, f.Text)
			}
		}
		return all
	}
	tier := func(bytes uint64, max int64) jetstream.Tier {
		return jetstream.Tier{Store: bytes, Limits: jetstream.AccountLimits{MaxStore: max, MaxStreams: -1}}
	}
	require.Equal(t, []string{"JetStream answers, and the account is below its limits (79 B on disk)"}, text(jetstream.AccountInfo{Tier: tier(79, 100)}))
	require.Equal(t, []string{"the account uses 80 B of 100 B on disk"}, text(jetstream.AccountInfo{Tier: tier(80, 100)}))
	require.Equal(t, []string{"the account's tier R3 uses 1.5 GB of 1.5 GB on disk"},
		text(jetstream.AccountInfo{Tiers: map[string]jetstream.Tier{"R1": tier(1, 100), "R3": tier(1_500_000_000, 1_500_000_001)}}))
}
