package shard

import (
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/internal/eventlog"
)

// decisions returns a function that keeps events of the coordinator for operators. A node's own
// log has them at level debug only.
func decisions(lines *eventlog.Log) func(coordinator.Event) {
	return func(e coordinator.Event) {
		line := eventlog.Line{Time: time.Now(), Level: slog.LevelInfo, Text: "coordinator: " + e.What.String(), Attrs: e.Subject()}
		if e.Reason != "" {
			line.Attrs += ": " + e.Reason
		}
		if e.Shard.Shard != 0 {
			lines.AddBulk(line)
			return
		}
		lines.Add(line)
	}
}
