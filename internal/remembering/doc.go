// Package remembering remembers the ids of entities and activates these entities again.
//
// A process has one [Memory]. It drives the cores of package remember: the Machine, by
// which members keep each other's ids, and a StoreMachine for each type whose ids a store
// keeps. It has a loop of its own, so that large sets do not delay heartbeats. A [Type] is
// one type of entities that are remembered, and activates them, all at once or at a constant
// rate. A [Shard] remembers the entities of one shard at its home.
package remembering
