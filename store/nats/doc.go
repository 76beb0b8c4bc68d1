// Package natsstore implements package store on JetStream, of nats-server 2.14 or later, in
// streams that are used for nothing else.
//
//	backend, err := natsstore.Open(ctx, "nats://127.0.0.1:4222", natsstore.Config{})
//
// # Streams
//
// The names of all streams and subjects begin with Config.Name. <name>_keys holds small
// records and leases. A type of entities has Config.Partitions pairs of streams,
// <name>_<type>_log_<p> and <name>_<type>_rec_<p>; shard s is in the pair s modulo their
// number, which the first start of the type fixes. A log is a subject of the first stream of
// the pair; a head and each record are subjects of the second. Positions and revisions are
// sequences of these streams.
//
// Streams are created when they are first needed, with a copy of all data on
// Config.Replicas servers, unless Config.NoCreate is set. A stream that was deleted is not
// created again: the error names it.
//
// # Durability
//
// A write is acknowledged when it is in the memory of the operating system of one server, or
// of most of three. The end of a process loses nothing. The end of a machine loses up to two
// minutes of acknowledged writes if it has the only copy, or if most copies end together.
// With "sync_interval: always" in the jetstream block of the server's configuration, an
// acknowledged write is on disk.
//
// # Permissions
//
// The connection's user publishes to <name>.> (Config.Name), and to $JS.API.DIRECT.GET,
// $JS.API.STREAM.MSG.GET, $JS.API.STREAM.INFO and $JS.API.STREAM.PURGE of these streams, and
// to $JS.API.STREAM.CREATE unless Config.NoCreate is set; it subscribes to its inboxes. No
// other user may publish to <name>.>, because that right is enough to claim shards.
// A member that hosts a durable type tries them when it starts.
package natsstore
