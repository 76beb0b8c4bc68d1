package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/shardgen/shardgen/runtime/admin"
)

// state lists the entities whose state cannot be read, or shows or replaces the state
// of one.
func state(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	switch {
	case o.id == "":
		list, err := c.Unreadable(ctx, o.kind)
		return orErr(printEntities(w, o, list), err)
	case o.from != "":
		b, err := os.ReadFile(o.from)
		if err != nil {
			return err
		}
		return set(ctx, c, o, w, append([]byte{}, b...), "state replaced")
	case o.drop:
		return set(ctx, c, o, w, nil, "state dropped")
	}
	e, err := c.State(ctx, o.kind, o.id)
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := os.WriteFile(o.out, e.State, 0o600); err != nil {
			return err
		}
		e.State = nil
	}
	return printEntity(w, o, e)
}

func set(ctx context.Context, c *admin.Client, o *options, w io.Writer, state []byte, done string) error {
	e, err := c.SetState(ctx, o.kind, o.id, state)
	switch {
	case err != nil:
		return err
	case o.json:
		return printJSON(w, entityOf(e))
	}
	_, err = fmt.Fprintf(w, "%s/%s at %s: %s\n", e.Kind, e.ID, e.Node.Name, done)
	return err
}

// entityJSON is an entity as -json prints it.
type entityJSON struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Node   string `json:"node"`
	Active bool   `json:"active"`
	State  []byte `json:"state,omitempty"`
	Why    string `json:"unreadable,omitempty"`
}

func entityOf(e admin.Entity) entityJSON {
	return entityJSON{e.Kind, e.ID, e.Node.Name, e.Active, e.State, e.Why}
}

func printEntities(w io.Writer, o *options, list []admin.Entity) error {
	if o.json {
		all := make([]entityJSON, 0, len(list))
		for _, e := range list {
			all = append(all, entityOf(e))
		}
		return printJSON(w, all)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintf(w, "no call has found a state of %s that cannot be read\n", o.kind)
		return err
	}
	for _, e := range list {
		if _, err := fmt.Fprintf(w, "%s/%s at %s: %s\n", e.Kind, e.ID, e.Node.Name, e.Why); err != nil {
			return err
		}
	}
	return nil
}

func printEntity(w io.Writer, o *options, e admin.Entity) error {
	if o.json {
		return printJSON(w, entityOf(e))
	}
	what := "idle, and its state can be read"
	switch {
	case e.Turn != nil:
		what = "a turn is under way, and its state is not shown (try again)"
	case e.Active:
		what = "active"
	case e.Why != "":
		what = "its state cannot be read: " + e.Why
	case e.State == nil && o.out == "":
		what = "it has no state"
	}
	if _, err := fmt.Fprintf(w, "%s/%s at %s: %s\n", e.Kind, e.ID, e.Node.Name, what); err != nil {
		return err
	}
	_, err := io.WriteString(w, hex.Dump(e.State))
	return err
}
