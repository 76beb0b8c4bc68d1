package health

import (
	"fmt"
	"net/http"
	"strings"

	shard "github.com/shardgen/shardgen/runtime"
)

// Handler returns a handler for probes by GET or HEAD:
//
//   - /livez answers 200 while the process is worth keeping, and 503 when only a new process helps
//     (Health.Live);
//   - /readyz answers 200 while calls can be made here (Health.Ready), and else 503;
//   - /settledz answers 200 while, in addition, nothing is wrong in the cluster as this
//     process sees it (Health.Settled), and else 503.
//
// The body of each answer is text: one line with the state, and a line for each reason. It names
// members and types, so serve it to operators only. check is the method Health of a node or a
// connection, called concurrently for each request.
func Handler(check func() shard.Health) http.Handler {
	mux := http.NewServeMux()
	serve := func(path, state string, holds func(shard.Health) bool) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			h := check()
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Cache-Control", "no-store")
			text := state
			if !holds(h) {
				w.WriteHeader(http.StatusServiceUnavailable)
				text = "not " + state
			}
			for _, why := range h.Reasons {
				text += "\n- " + strings.ReplaceAll(why, "\n", "; ")
			}
			fmt.Fprintln(w, text)
		})
	}
	serve("/livez", "live", func(h shard.Health) bool { return h.Live })
	serve("/readyz", "ready", func(h shard.Health) bool { return h.Ready })
	serve("/settledz", "settled", func(h shard.Health) bool { return h.Settled })
	return mux
}
