package shard_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

// cashiers starts a node that hosts cashiers, and returns clients that call them on the caller's
// goroutine, on another one, and from another process.
func cashiers(t *testing.T) map[string]*fixture.CashierClient {
	t.Helper()
	broker := memory.NewBroker(memory.Options{})
	config := func(name string) shard.Config {
		return shard.Config{Cluster: "test", Name: name, Transport: broker.Transport(), Logger: logger(name)}
	}
	node := shard.New(config("a"))
	require.NoError(t, fixture.HostCashier(node, func() *fixture.Cashier { return &fixture.Cashier{} }))
	require.NoError(t, node.Start(testContext(t)))
	t.Cleanup(func() { _ = node.Close() })
	conn, err := shard.Dial(testContext(t), config("outside"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return map[string]*fixture.CashierClient{"near": fixture.NewCashierClient(node), "far": fixture.NewCashierClient(conn)}
}

// TestDeclaredErrors: a caller finds exactly the declared errors in a method's error, whether the
// call is local or remote.
func TestDeclaredErrors(t *testing.T) {
	tests := []struct {
		what  string
		text  string
		is    []error
		short *fixture.Short
		code  fixture.Code // by value
		ptr   bool         // by pointer
	}{
		{what: "sentinel", text: "shut", is: []error{fixture.ErrShut}},
		{what: "wrapped", text: "cashier: shut", is: []error{fixture.ErrShut}},
		{what: "foreign", text: "find: sql: no rows in result set", is: []error{sql.ErrNoRows}},
		{what: "pointer", text: "take: 2 short", short: &fixture.Short{Missing: 2, Of: map[string]int{"tea": 3}}},
		{what: "value", text: "code 7", is: []error{fixture.Code(7)}, code: 7},
		{what: "pointed", text: "code 8", code: 8, ptr: true},
		{what: "joined", text: "shut\ncode 9\nsecret", is: []error{fixture.ErrShut, fixture.Code(9)}, code: 9},
		{what: "secret", text: "secret"},
		{what: "nil", text: "*fixture.Short, whose own methods panicked: runtime error: invalid memory address or nil pointer dereference"},
	}
	all := []error{fixture.ErrShut, sql.ErrNoRows, fixture.ErrSecret, fixture.Code(7), fixture.Code(9)}
	for name, client := range cashiers(t) {
		for _, tt := range tests {
			t.Run(name+"/"+tt.what, func(t *testing.T) {
				err := client.Ref("cashier").Refuse(testContext(t), tt.what)
				var entity *shard.EntityError
				require.ErrorAs(t, err, &entity)
				require.Equal(t, tt.text, entity.Text)
				require.Equal(t, shard.Executed, shard.OutcomeOf(err))
				for _, target := range all {
					want := false
					for _, is := range tt.is {
						want = want || is == target
					}
					require.Equal(t, want, errors.Is(err, target), "errors.Is(err, %v)", target)
				}
				var short *fixture.Short
				require.Equal(t, tt.short != nil, errors.As(err, &short))
				require.Equal(t, tt.short, short)
				var code fixture.Code
				require.Equal(t, tt.code != 0 && !tt.ptr, errors.As(err, &code))
				var pointer *fixture.Code
				require.Equal(t, tt.ptr, errors.As(err, &pointer))
				if tt.ptr {
					code = *pointer
				}
				require.Equal(t, tt.code, code)
			})
		}
		require.NoError(t, client.Ref("cashier").Refuse(testContext(t), "none"))
	}
}

// TestTellDirective: a method marked as a tell returns to its caller before it has run. Later calls
// run after it.
func TestTellDirective(t *testing.T) {
	for name, client := range cashiers(t) {
		var api fixture.CashierAPI = client.Ref("cashier-" + name)
		ctx, cancel := context.WithCancel(testContext(t))
		require.NoError(t, api.Remark(ctx, "one"))
		cancel() // a tell is not cancelled with its sender's context
		require.NoError(t, client.Tell("cashier-"+name).Remark(testContext(t), "two"))
		remarks, err := api.Read(testContext(t))
		require.NoError(t, err)
		require.Equal(t, []string{"one", "two"}, remarks)
	}
}
