// Package dashboard serves a page that shows a cluster live: its load and latency in the last hour, its
// members and their evidence, the homes and loads of its shards, its types with pools and reminders, the
// busiest methods, entities and callers, feeds, the store, certificates, and the log lines of all
// members. It queries the cluster through an [admin.Client] and changes nothing.
//
//	client, err := admin.Dial(ctx, admin.Options{Cluster: "shop", Transport: natstransport.New(url)})
//	…
//	mux.Handle("/shards/", http.StripPrefix("/shards", dashboard.Handler(client, dashboard.Options{})))
//
// [Handler] has no authentication, so put it behind yours. The page shows names of members, types,
// entities and callers, and log lines of the runtime, to everybody who can reach it. It needs an
// operator's right to read (shardctl permissions reader).
//
// All viewers share the requests to the cluster: members are asked at most once a second, and not
// at all while nobody views the page.
package dashboard
