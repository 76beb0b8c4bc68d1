package shard_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// nestedErrors are calls that make a nested call whose arguments or results cannot be encoded or
// decoded.
var nestedErrors = []struct {
	name string
	call func(t *testing.T, a fixture.AccountRef, peer string) error
	ran  bool // whether the nested call ran
}{
	{"arguments", func(t *testing.T, a fixture.AccountRef, peer string) error {
		return a.TradeWith(testContext(t), peer, "unsendable")
	}, false},
	{"results of the peer", func(t *testing.T, a fixture.AccountRef, peer string) error {
		return a.FetchFrom(testContext(t), peer, "unsendable")
	}, true},
	{"results at the caller", func(t *testing.T, a fixture.AccountRef, peer string) error {
		return a.FetchFrom(testContext(t), peer, "unreadable")
	}, true},
}

// TestOutcomeIsTheCallersOwn: a method has run although its nested call failed, whatever the
// outcome of the nested call.
func TestOutcomeIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	for _, queued := range []bool{false, true} {
		t.Run(fmt.Sprintf("queued=%v", queued), func(t *testing.T) {
			c := emptyCluster(t)
			c.opts = append(c.opts, shard.Inline(!queued))
			c.start("a")
			c.start("b")
			conn := c.dial("client")
			for _, caller := range []shard.Caller{c.nodes["a"], c.nodes["b"], conn} {
				accounts := fixture.NewAccountClient(caller)
				for i, test := range nestedErrors {
					for j := range 6 { // peers at this node and at others
						outer, peer := fmt.Sprint("outer-", i, j), fmt.Sprint("peer-", j)
						before, err := accounts.Ref(outer).Get(testContext(t))
						require.NoError(t, err)
						err = test.call(t, accounts.Ref(outer), peer)
						after, countErr := accounts.Ref(outer).Get(testContext(t))
						require.NoError(t, countErr)
						require.Equal(t, before+1, after, "%s: it ran", test.name)
						if err != nil { // local strings need no encoding, so the call succeeds
							var entity *shard.EntityError
							require.ErrorAs(t, err, &entity, test.name)
							require.Equal(t, shard.Executed, shard.OutcomeOf(err), "%s: %v", test.name, err)
						}
					}
				}
			}
		})
	}
}

// TestOutcomeOfWhatDoesNotCross: a call whose arguments cannot be encoded did not run, and one
// whose results cannot be decoded did. Local and remote calls report this alike, with an error that
// names the call.
func TestOutcomeOfWhatDoesNotCross(t *testing.T) {
	c := newCluster(t, "a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	_, err := accounts.Ref("bob").Trade(testContext(t), "unsendable")
	var call *shard.CallError
	require.ErrorAs(t, err, &call)
	require.Equal(t, shard.NotExecuted, call.Outcome)
	require.Equal(t, "bob", call.ID)
	require.ErrorAs(t, accounts.Tell("bob").Trade(testContext(t), "unsendable"), &call)
	require.Equal(t, shard.NotExecuted, call.Outcome)
	_, err = accounts.Ref("bob").Fetch(testContext(t), "unreadable")
	require.ErrorAs(t, err, &call)
	require.Equal(t, shard.Executed, call.Outcome)
	_, err = accounts.Ref("bob").Fetch(testContext(t), "unsendable")
	require.ErrorIs(t, err, shard.ErrNoResult)
	require.Equal(t, shard.Executed, shard.OutcomeOf(err))
	_, err = accounts.CallRaw(testContext(t), shard.Raw{Method: "Fetch", ID: "bob", Body: []byte(`{"text":"unreadable"}`)})
	require.Equal(t, shard.Executed, shard.OutcomeOf(err), "%v", err)
	_, err = accounts.CallRaw(testContext(t), shard.Raw{Method: "Trade", ID: "bob", Body: []byte(`{"text":"unreadable"}`)})
	require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err), "%v", err)
	got, err := accounts.Ref("bob").Get(testContext(t))
	require.NoError(t, err)
	require.EqualValues(t, 3, got, "the calls that ran")
}
