// Package store measures the costs of a commit on JetStream. Commits to the logs of 64 shards,
// each with one append under way while the commits for the next one gather, are compared with
// one publish for each commit, with compare-and-set on a subject for each entity.
//
//	go test -C bench -run '^$' -bench . ./store
//
// Both run over one nats-server process on the loopback interface, which keeps its
// streams in files; a commit has 128 bytes, and there are 10,000 entities. ns/op is the
// time for each commit at full load, not the latency of one.
package store
