package health

import (
	"fmt"
	"net/http"
	"strings"

	shard "github.com/shardgen/shardgen/runtime"
)

// Handler returns a handler for probes by GET or HEAD:
//
//   - /livez answers 200 while the process is worth keeping (Health.Live), and 503 when only a new
//     process helps;
//   - /readyz answers 200 while calls can be made here (Health.Ready), otherwise 503;
//   - /settledz answers 200 while the process is ready and sees nothing, here or in the cluster,
//     that a rolling restart should wait for (Health.Settled), otherwise 503.
//
// The body of each answer is text: one line with the state, and a line for each reason. It names
// members and types, so let only operators reach the handler. check is the method Health of a node
// or a connection. It is called for each request, also concurrently.
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
