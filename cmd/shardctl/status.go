package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/shardgen/shardgen/internal/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
)

// errUnhealthy makes the exit code 1 after status or doctor has printed the reasons.
var errUnhealthy = errors.New("the cluster is not healthy")

// status prints whether the cluster is healthy, and if not, why.
func status(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	v, err := c.Members(ctx)
	var all []admin.NodeShards
	if err == nil {
		all, err = c.Shards(ctx, "")
	}
	h := clusterview.Judge(o.cluster, v, all)
	if err != nil {
		h.Healthy, h.Wrong = false, append(h.Wrong, err.Error())
	}
	if o.json {
		err = printJSON(w, h)
	} else {
		err = printHealth(w, h)
	}
	if err == nil && !h.Healthy {
		err = errUnhealthy
	}
	return err
}

func printHealth(w io.Writer, h clusterview.Health) error {
	word := "healthy"
	if !h.Healthy {
		word = "NOT healthy"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s: %d members, %d types, %d shards\n", h.Cluster, word, h.Members, h.Types, h.Shards)
	for _, s := range h.Wrong {
		fmt.Fprintln(&b, "wrong:", s)
	}
	for _, s := range h.Notes {
		fmt.Fprintln(&b, "note: ", s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
