// Package natsstore implements package store on JetStream, in streams of its own. It needs
// nats-server 2.14 or later.
//
//	backend, err := natsstore.Open(ctx, "nats://127.0.0.1:4222", natsstore.Config{})
//
// # Streams
//
// The names of all streams and subjects begin with Config.Name. <name>_keys holds small records and
// leases. A type of entities has Config.Partitions pairs of streams, <name>_<type>_log_<p> and
// <name>_<type>_rec_<p>. Shard s is in the pair <p> that is s modulo the number of pairs. The
// number of pairs is fixed when the type is first started. The first stream of a pair has one
// subject for each log, the second has one for each head and for each record. Positions and
// revisions are sequences of these streams.
//
// Streams are created when they are first needed, with a copy of all data on Config.Replicas
// servers, unless Config.NoCreate is set. A stream that was deleted is not created again: the error
// names it.
//
// # Durability
//
// A write is acknowledged when it is in the operating system's memory at one server, or with three
// replicas at two of three. If a server's process ends, nothing is lost. If a machine fails, up to
// two minutes of acknowledged writes are lost if it had the only copy, or if most machines with
// copies fail together. With "sync_interval: always" in the jetstream block of the server's
// configuration, an acknowledged write is on disk.
//
// # Permissions
//
// The connection's user needs the rights to publish to <name>.> (<name> is Config.Name), and to
// $JS.API.DIRECT.GET, $JS.API.STREAM.MSG.GET, $JS.API.STREAM.INFO and $JS.API.STREAM.PURGE of these
// streams. Unless Config.NoCreate is set, it also publishes to $JS.API.STREAM.CREATE of them. It
// subscribes to its inboxes. No other user may publish to <name>.>, because that right is enough to
// claim shards. A member that hosts a durable type checks its permissions when it starts.
package natsstore
