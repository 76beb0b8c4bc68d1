package shardtest_test

import (
	"testing"

	"github.com/shardgen/shardgen/internal/fixture/vault"
	"github.com/shardgen/shardgen/shardtest"
)

// TestCallerOfDurable: asks of a durable type run on the struct too, whether they are reads or not.
func TestCallerOfDurable(t *testing.T) {
	c := shardtest.NewCaller()
	c.Put("Vault", "v", &vault.Vault{ID: "v"})
	r := vault.NewVaultClient(c).Ref("v")
	if sum, err := r.Add(t.Context(), 5); err != nil || sum != 5 {
		t.Errorf("Add: %d, %v, want 5", sum, err)
	}
	if sum, err := r.Get(t.Context()); err != nil || sum != 5 { // marked //shard:read
		t.Errorf("Get: %d, %v, want 5", sum, err)
	}
	if n := len(c.Calls()); n != 2 {
		t.Errorf("%d calls are recorded, want 2", n)
	}
}
