package main

import (
	"context"
	"io"
	"strings"

	"github.com/shardgen/shardgen/runtime/admin"
)

func members(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	v, err := c.Members(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(w, viewOf(o.cluster, v))
	}
	return printView(w, o, v)
}

func join(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	var through []string
	if o.through != "" {
		through = strings.Split(o.through, ",")
	}
	node, err := c.Join(ctx, o.node, through...)
	return printDone(w, o, node, "is up", err)
}

func leave(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	node, err := c.Leave(ctx, o.node)
	return printDone(w, o, node, "has left", err)
}

func down(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	node, err := c.Down(ctx, o.node, o.force)
	return printDone(w, o, node, "is down", err)
}
