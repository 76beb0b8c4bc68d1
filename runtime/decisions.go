package shard

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/runtime/coordinator"
)

// decisions returns a function that keeps events of the coordinator for operators. A node's own
// log has them at level debug only.
func decisions(lines *operator.EventLog) func(coordinator.Event) {
	return func(e coordinator.Event) {
		about := slices.DeleteFunc([]string{e.Subject(), e.Reason}, func(s string) bool { return s == "" })
		line := operator.Line{Time: time.Now(), Level: slog.LevelInfo, Text: "coordinator: " + e.What.String(), Attrs: strings.Join(about, ": ")}
		if e.Shard.Shard != 0 {
			lines.AddBulk(line)
			return
		}
		lines.Add(line)
	}
}
