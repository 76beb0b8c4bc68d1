// Package remember keeps the ids of entities that are to be activated again when their home is
// lost. Its state machines have no I/O: a [Machine] keeps the ids in the memory of the cluster's
// members, a [StoreMachine] in a store.
//
// # In the cluster
//
// Each shard's home has the set of the shard's ids. It sends the set, and then every change, to
// some other members, its replicas. The replicas are chosen by rendezvous hashing (Thaler and
// Ravishankar, 1998) among the type's hosts, so few sets are sent again when a member comes or
// goes. An id that was added is safe once one replica has it; the driver activates the entity only
// then.
//
//	home      Keep: reset, ids …, seal     the whole set, in as many parts as it takes
//	          Keep: changes                from then on
//	replica   Kept                         of each message, before the next one is sent
//	home      Keep: drop                   to all others, once every replica has the set
//
// One message at a time is under way between two members, of at most
// Config.MaxBatch bytes of ids; changes made meanwhile share the next one.
// Messages are numbered and sent again until they are answered, so the channel may
// lose, repeat and reorder.
//
// A shard that moves brings its ids along, from the old home to the new one. After the loss of a
// home the shard's new home asks all members for the ids that they keep:
//
//	new home  Recall                       to every member that hosts something
//	member    Recalled                     in parts, some perhaps empty
//
// Of several sets the one with the highest epoch counts, and among equal epochs the one with the most
// changes. While a shard is recalled, its entities are activated when they are called; their ids are
// sent to the replicas when the old set is known. The new home waits for a member that does not
// answer until the member is removed, or for Config.Patience.
//
// An id that was safe is lost only when the home and all its replicas are lost before the
// next home has heard of it; [Kind.Replicas] is the number of replicas.
//
// # In a store
//
// A [StoreMachine] writes a shard's ids into [Buckets] records, each as a whole, by
// compare-and-set. While a write of a record is under way, further changes share the next write. An
// id is safe when the store has acknowledged the write with it. A home changes ids only within
// turns, and turns need its lease. So only a late write of a former home can cause a conflict; the home
// overwrites it. A home begins by rewriting the records that it has read, so no late write succeeds.
package remember
