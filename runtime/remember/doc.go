// Package remember keeps the ids of entities that are to live again when their
// home is lost, as pure cores: a [Machine] keeps them in the memory of the
// cluster's members, a [Book] in a store.
//
// # In the cluster
//
// Each shard's home has the set of its ids, and sends it to some other members,
// its keepers, and then every change. The keepers are chosen by rendezvous hashing
// (Thaler and Ravishankar, 1998) among the members that host the type, so that
// few sets travel when a member comes or goes. An id that was added is safe once
// one keeper has it; the driver lets the entity live only then.
//
//	home      Keep: reset, ids …, seal     the whole set, in as many parts as it takes
//	          Keep: changes                from then on
//	keeper    Kept                         of each message, before the next one is sent
//	home      Keep: drop                   to all others, once every keeper has the set
//
// One message at a time is under way between two members, of at most
// Config.MaxBatch bytes of ids; changes that come meanwhile share the next one.
// Messages are numbered and sent again until they are answered, so the channel may
// lose, repeat and reorder.
//
// A shard that moves brings its ids along, from the old home to the new one. The
// new home of a shard whose home was lost asks all members what they keep:
//
//	new home  Recall                       to every member that hosts something
//	member    Recalled                     in parts; nothing is an answer, too
//
// Of several sets the one of the highest epoch counts, then the one with most
// changes. While a shard is recalled its entities live when they are called, and
// are told to the keepers when the old set is known. Members that do not answer are
// waited for until they are removed, or for Config.Patience.
//
// What was safe is lost only when the home and all its keepers are lost before the
// next home has heard of it; [Config.Copies] says how many there are.
//
// # In a store
//
// A [Book] writes a shard's ids into [Buckets] records, each as a whole, by
// compare-and-set. While one write of a record is under way further changes share
// the next. An id is safe when the write that has it was answered. Who may write
// is settled elsewhere: a home changes ids within turns, which need its lease. So a
// conflict is somebody's late write, and is written over. A home begins with writing
// what it has read once more, so that no late write succeeds.
package remember
