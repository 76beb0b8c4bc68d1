package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/shardgen/shardgen/runtime/admin"
)

// pin pins the shard of an entity to a member.
func pin(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	if (o.node == "") != o.withdraw {
		return errors.New("say at which NODE, or -withdraw")
	}
	p, err := c.Place(ctx, o.kind, o.id, o.node)
	switch {
	case err != nil:
		return err
	case o.json:
		return printJSON(w, placeOf(o, p))
	}
	done := "is to live at " + o.node
	if o.withdraw {
		done = "is placed by its type's allocation again"
	}
	_, err = fmt.Fprintf(w, "shard %d of %s/%s, now at %s, %s (shardctl moves shows the move)\n", p.Shard, o.kind, o.id, cmp.Or(p.Node, "no home"), done)
	return err
}
