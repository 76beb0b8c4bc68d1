// Package remember keeps the ids of entities that are to be activated again when their
// home is lost, as pure cores: a [Machine] keeps them in the memory of the
// cluster's members, a [StoreMachine] in a store.
//
// # In the cluster
//
// Each shard's home has the set of its ids. It sends the set, and then every change, to some other
// members, its replicas. The replicas are chosen by rendezvous hashing (Thaler and Ravishankar,
// 1998) among the type's hosts, so few sets travel when a member comes or goes. An id that was
// added is safe once one replica has it; the driver activates the entity only then.
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
// home the shard's new home asks all members for their ids:
//
//	new home  Recall                       to every member that hosts something
//	member    Recalled                     in parts, which may be empty
//
// Of several sets the one of the highest epoch counts, then the one with most
// changes. While a shard is recalled its entities are activated when they are called, and
// their ids are sent to the replicas when the old set is known. The new home waits for
// members that do not answer until they are removed, or for Config.Patience.
//
// An id that was safe is lost only when the home and all its replicas are lost before the
// next home has heard of it; [Kind.Replicas] is the number of replicas.
//
// # In a store
//
// A [StoreMachine] writes a shard's ids into [Buckets] records, each as a whole, by
// compare-and-set. While one write of a record is under way further changes share the next. An id
// is safe when the write that has it was answered. The right to write comes from elsewhere: a home
// changes ids within turns, which need its lease. So a conflict is a late write of a former home,
// and is overwritten. A home begins by rewriting the records it has read, so that no late write
// succeeds.
package remember
