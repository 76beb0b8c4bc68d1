package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/shardgen/shardgen/runtime/admin"
)

// whereSingleton prints where a singleton runs, and why there.
func whereSingleton(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	rows := viewOf(o.cluster, v).Singletons
	i := slices.IndexFunc(rows, func(s jsonSingleton) bool { return s.Name == o.kind })
	switch {
	case i < 0:
		return fmt.Errorf("cluster %s: no member hosts a singleton %s (of an entity, say which ID)", o.cluster, o.kind)
	case o.json:
		return printJSON(w, rows[i])
	case rows[i].Node == "":
		_, err = fmt.Fprintf(w, "%s runs nowhere: %s\n", o.kind, rows[i].Why)
		return err
	}
	_, err = fmt.Fprintf(w, "%s runs at %s\nwhy: it runs at the oldest member that hosts it and is up, of %s\n", o.kind, nameOf(rows[i].Node), list(namesOf(v.Singletons[i].Hosts)))
	return err
}
