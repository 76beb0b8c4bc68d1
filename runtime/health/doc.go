// Package health tells orchestrators how a node or a connection is: by HTTP probes, and by
// the messages that systemd expects from a service of Type=notify.
//
//	go http.ListenAndServe(":8080", health.Handler(node.Health))
//	go health.Notify(context.Background(), node.Health)
//	err := node.Run(ctx) // until SIGTERM ends ctx
//
// An orchestrator restarts a process unless it is live, sends work only to ready ones, and in a
// rolling restart stops the next node once the last one is ready again.
package health
