package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
)

// The JSON of where. Fields are added, never changed.
type jsonPlace struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Shard uint32 `json:"shard"`
	Node  string `json:"node,omitempty"`
	Epoch string `json:"epoch,omitempty"`
	Why   string `json:"why,omitempty"`
	// Since is when the shard got that home; absent: before the coordinator began, or it has none.
	Since *time.Time `json:"since,omitempty"`
}

// placeOf is the home of an entity for JSON.
func placeOf(o *options, p admin.Place) jsonPlace {
	j := jsonPlace{Type: o.kind, ID: o.id, Shard: p.Shard, Node: p.Node, Epoch: p.Epoch, Why: p.Why}
	if !p.Since.IsZero() {
		since := p.Since.UTC()
		j.Since = &since
	}
	return j
}

// where prints the home of an entity, and the reason for it.
func where(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	if o.id == "" {
		return whereSingleton(ctx, c, o, w)
	}
	p, err := c.Where(ctx, o.kind, o.id)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(w, placeOf(o, p))
	}
	at := "at " + p.Node + " under epoch " + p.Epoch
	if !p.Since.IsZero() {
		at += " since " + p.Since.Local().Format(time.DateTime)
	}
	if p.Node == "" {
		at = "without a home"
	}
	_, err = fmt.Fprintf(w, "%s/%s is in shard %d, which is %s\nwhy: %s\n", o.kind, o.id, p.Shard, at, cmp.Or(p.Why, "the coordinator has no reason for it"))
	return err
}
