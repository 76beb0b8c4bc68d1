package main

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestEntities lists the ids of a type: all, those with a prefix, those after an id, those of
// active entities, and ids that are not text.
func TestEntities(t *testing.T) {
	t.Parallel()
	env, _, client := accounts(t)
	expect := func(args string, code int, stdout, stderr string) {
		t.Helper()
		o := shardctl(t, env, args)
		require.Equal(t, code, o.code, "%s: %s", args, o.stderr)
		require.Equal(t, stdout, o.stdout, args)
		require.Contains(t, o.stderr, stderr, args)
	}
	expect("entities Account", exitOK, "Account has no such entities\n", "")
	expect("entities Account -json", exitOK, "", "")
	for _, id := range []string{"ann", "bob", "carl", "it's", "\xff\n", `"x"`} {
		_, err := client.Ref(id).Add(t.Context(), 5)
		require.NoError(t, err)
	}
	expect("entities Account", exitOK, `"\"x\""`+"\nann\nbob\ncarl\nit's\n"+`"\xff\n"`+"\n", "")
	expect("entities Account -prefix b", exitOK, "bob\n", "")
	expect("entities Account -prefix ann -active", exitOK, "ann\n", "")
	expect("entities Account -prefix x", exitOK, "Account has no such entities\n", "")
	expect("entities Account -after ann -limit 2", exitOK, "bob\ncarl\nthere are more (shardctl entities Account -after carl, or a higher -limit)\n", "")
	expect("entities Account -after carl -limit 1", exitOK, "it's\n"+`there are more (shardctl entities Account -after 'it'\''s', or a higher -limit)`+"\n", "")
	expect("entities Account -after carl -limit 2", exitOK, "it's\n"+`"\xff\n"`+"\n", "")
	expect(`entities Account -after "\xff"`, exitOK, `"\xff\n"`+"\n", "")
	expect("entities Account -after bob -json", exitOK, `{"id":"carl"}`+"\n"+`{"id":"it's"}`+"\n"+`{"id":"/wo=","base64":true}`+"\n", "")
	expect("entities Account -limit -1", exitUsage, "", "-limit is -1: want 0 or more")
	expect("entities Nothing", exitFailed, "", "no member hosts the type Nothing")
	expect("entities", exitUsage, "", "say which type")

	var want strings.Builder
	for i := range 2500 {
		id := fmt.Sprintf("n%04d", i)
		fmt.Fprintln(&want, id)
		require.NoError(t, client.Tell(id).Note(t.Context(), "x"))
	}
	for i := range 2500 {
		_, err := client.Ref(fmt.Sprintf("n%04d", i)).Get(t.Context())
		require.NoError(t, err)
	}
	expect("entities Account -prefix n -limit 0", exitOK, want.String(), "")
	expect("entities Account -prefix n -limit 2500", exitOK, want.String(), "")
}

// TestEntitiesByIndex lists entities by a field, before and after an export and an import.
func TestEntitiesByIndex(t *testing.T) {
	t.Parallel()
	url := runJetStream(t, t.TempDir()).URL()
	begin := func() (*bank.TicketClient, func()) {
		n := shard.New(shard.Config{
			Cluster: "cashier", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		t.Cleanup(func() { _ = n.Close() })
		require.NoError(t, bank.HostTicket(n, func() *bank.Ticket { return &bank.Ticket{} }))
		require.NoError(t, n.Start(t.Context()))
		return bank.NewTicketClient(n), func() { require.NoError(t, n.Shutdown(t.Context())) }
	}
	env := map[string]string{"NATS_URL": url, "SHARD_CLUSTER": "cashier"}
	expect := func(args string, code int, stdout, stderr string) {
		t.Helper()
		o := shardctl(t, env, args)
		require.Equal(t, code, o.code, "%s: %s", args, o.stderr)
		require.Equal(t, stdout, o.stdout, args)
		require.Contains(t, o.stderr, stderr, args)
	}
	tickets, stop := begin()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, id := range []string{"ann", "bob", "carl", "dan"} {
		require.NoError(t, tickets.Ref(id).Set(t.Context(), bank.Open, int32(i%2)-1, at.Add(time.Duration(i)*time.Hour), i == 3))
	}
	expect("entities Ticket -where Points=-1", exitOK, "ann\ncarl\n", "")
	expect("entities Ticket -where Points=-1 -after ann", exitOK, "carl\n", "")
	expect("entities Ticket -where Stage=open -prefix b", exitOK, "bob\n", "")
	expect("entities Ticket -where Stage=open -limit 1", exitOK, "ann\nthere are more (shardctl entities Ticket -where 'Stage=open' -after ann, or a higher -limit)\n", "")
	expect("entities Ticket -where urgent=true", exitOK, "dan\n", "")
	expect("entities Ticket -where Due=2026-01-02T05:04:05+01:00", exitOK, "bob\n", "")
	expect("entities Ticket -where Stage=lost", exitOK, "Ticket has no such entities\n", "")
	expect("entities Ticket -where Note=x", exitFailed, "", "no index on \"Note\" (its indexed fields are Stage, Points, Due, urgent)")
	expect("entities Ticket -where Points=many", exitFailed, "", "Ticket.Points")

	stop()
	expect("store verify Ticket -json", exitOK, "[]\n", "")
	image := filepath.Join(t.TempDir(), "image")
	for _, args := range []string{"store export -o " + image, "store delete Ticket -force", "store import -from " + image} {
		o := shardctl(t, env, args)
		require.Equal(t, exitOK, o.code, "%s: %s", args, o.stderr)
	}
	tickets, stop = begin()
	defer stop()
	expect("entities Ticket -where Points=-1", exitOK, "ann\ncarl\n", "")
	require.NoError(t, tickets.Ref("ann").Set(t.Context(), bank.Open, 7, at, false))
	expect("entities Ticket -where Points=-1", exitOK, "carl\n", "")
}

// TestEntitiesAreForReaders: a reader's rights are enough to list ids.
func TestEntitiesAreForReaders(t *testing.T) {
	t.Parallel()
	env, node := guarded(t, shard.Config{})
	_, err := fixture.NewAccountClient(node).Ref("ann").Add(t.Context(), 1)
	require.NoError(t, err)
	shardctl(t, env("bob"), "entities Account").check(t, "a reader", exitOK, "ann\n", "")
}
