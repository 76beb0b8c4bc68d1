package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
)

// The JSON of rebalance, pause and resume, and of a pause elsewhere. Fields are added, never changed.
type (
	jsonBalanced struct {
		Cluster string `json:"cluster"`
		Result  string `json:"result"`
	}
	jsonPause struct {
		By string    `json:"by"`
		At time.Time `json:"at"`
	}
)

// rebalance has the coordinator look at once which shards should move.
func rebalance(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	result, err := c.Rebalance(ctx)
	return printBalanced(w, o, result, err)
}

// pause pauses rebalancing.
func pause(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	return printBalanced(w, o, "rebalancing is paused", c.PauseRebalancing(ctx))
}

// resume ends a pause.
func resume(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	return printBalanced(w, o, "rebalancing is not paused", c.ResumeRebalancing(ctx))
}

func printBalanced(w io.Writer, o *options, result string, err error) error {
	switch {
	case err != nil:
		return err
	case o.json:
		return printJSON(w, jsonBalanced{o.cluster, result})
	}
	_, err = fmt.Fprintln(w, result)
	return err
}

// pauseOf is the pause of a view for JSON; nil means there is none.
func pauseOf(v admin.View) *jsonPause {
	if v.Pause.IsZero() {
		return nil
	}
	return &jsonPause{v.Pause.By, v.Pause.At.UTC()}
}

// pausedSince is a line about a pause; "" means there is none.
func pausedSince(p admin.Pause) string {
	if p.IsZero() {
		return ""
	}
	return fmt.Sprintf("rebalancing is paused by %s since %s\n", p.By, p.At.Local().Format(time.DateTime))
}
