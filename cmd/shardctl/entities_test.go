package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestEntities lists the ids of a type: all, some, a part, those that are active, and ids that are no
// text.
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

// TestEntitiesAreForReaders: a reader's rights are enough to list ids.
func TestEntitiesAreForReaders(t *testing.T) {
	t.Parallel()
	env, node := guarded(t, shard.Config{})
	_, err := fixture.NewAccountClient(node).Ref("ann").Add(t.Context(), 1)
	require.NoError(t, err)
	shardctl(t, env("bob"), "entities Account").check(t, "a reader", exitOK, "ann\n", "")
}
