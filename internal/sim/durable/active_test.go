package durable

import (
	"testing"

	"github.com/shardgen/shardgen/internal/durable"
)

// TestOldHandle: a commit with a handle of before the entity's last passivation changes the entity
// that is there now.
func TestOldHandle(t *testing.T) {
	a := newDesk(t, 1).seat(0, 1).open()
	a.commit("a", "1")
	old := a.state("a").Active
	a.core.Passivated("a")
	a.save() // now the tail does not have the entity any more
	commit := func(state string) error {
		c := durable.Command{Source: durable.Source{Incarnation: 1}, Number: 99, Hash: 1}
		_, err := a.core.Commit(a.now(), &durable.Turn{Entity: "a", Active: old, State: []byte(state), Command: &c})
		return err
	}
	if err := commit("late"); err == nil {
		t.Error("a passivated entity commits")
	}
	if now := a.state("a").Active; now == old {
		t.Error("the entity is the same that was forgotten: this tests nothing")
	}
	if err := commit("2"); err != nil {
		t.Fatal(err)
	}
	a.run()
	a.want("a", "2", 2)
}
