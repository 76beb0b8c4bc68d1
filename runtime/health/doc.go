// Package health reports the health of a node or a connection to orchestrators: by HTTP probes, and
// by the messages that systemd expects from a service of Type=notify.
//
//	go http.ListenAndServe(":8080", health.Handler(node.Health))
//	go health.Notify(context.Background(), node.Health)
//	err := node.Run(ctx) // until SIGTERM ends ctx
//
// An orchestrator restarts a process that is not live and sends work only to ready processes. In a
// rolling restart it stops a node only when the previous node is ready again.
package health
