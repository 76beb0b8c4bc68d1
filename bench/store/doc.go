// Package store measures what a commit costs on JetStream: by the logs of 64 shards,
// of which each has one append under way that carries what has come meanwhile, beside
// one publish for each commit, with compare-and-set on a subject for each entity.
//
//	go test -C bench -run '^$' -bench . ./store
//
// Both run over one nats-server process on the loopback interface, which keeps its
// streams in files; a commit has 128 bytes, and there are 10,000 entities. ns/op is the
// time by commit at full load, not the latency of one.
package store
