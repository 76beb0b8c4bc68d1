// Package natsstore is a store on JetStream, of nats-server 2.14 or later: what
// package store describes, in streams that the cluster shares with nobody.
//
//	backend, err := natsstore.Open(ctx, "nats://127.0.0.1:4222", natsstore.Config{})
//
// # What lies where
//
// Config.Name begins the name of every stream and subject. <name>_keys holds small
// records and leases. A type of entities has Config.Partitions pairs of streams,
// <name>_<type>_log_<p> and <name>_<type>_rec_<p>; shard s is in the pair s modulo
// their number, which is that of the type's first start for ever. A log is a
// subject of the one, a head and each record is a subject of the other. Positions
// and revisions are sequences of these streams.
//
// Streams are created when they are first needed, with a copy of all data on
// Config.Replicas servers, unless Config.NoCreate. None is created again in place of
// one that was deleted: that is an error that names it.
//
// # What the server can lose
//
// A write is acknowledged when it is in the memory of the operating system of one
// server, or of most of three: the end of a process loses nothing, that of a
// machine up to two minutes of acknowledged writes where it has the only copy, or
// where most copies end together. With "sync_interval: always" in the jetstream block
// of the server's configuration, what is acknowledged is on the disk.
//
// # Rights
//
// The connection's user publishes to <name>.> (Config.Name), and to
// $JS.API.DIRECT.GET, $JS.API.STREAM.MSG.GET, $JS.API.STREAM.INFO and
// $JS.API.STREAM.PURGE of these streams, and with Config.NoCreate unset to
// $JS.API.STREAM.CREATE; it subscribes to its inboxes. Keep others out of <name>.>:
// who may write there may claim shards.
package natsstore
