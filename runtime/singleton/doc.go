// Package singleton keeps one instance of something on the oldest member of a
// cluster, as a pure core: the cluster singleton of Akka. The shard coordinator
// runs on it.
//
// Every node runs a [Manager]. The instance belongs to the oldest member that is
// Up or Leaving (with the role, if there is one). A member that becomes Exiting
// hands over:
//
//	old: Oldest --Exiting--> WasOldest --HandOverToMe--> HandingOver --stopped--> End
//	new: Younger --oldest--> BecomingOldest --HandOverDone or removed--> Oldest
//
//	old → new  TakeOverFromMe      until HandOverToMe comes
//	new → old  HandOverToMe        until HandOverDone comes, or old is removed
//	old → new  HandOverInProgress  the instance is stopping
//	old → new  HandOverDone        it has stopped, and never starts again there
//
// A manager starts the instance only when every member that is older than itself
// has said HandOverDone or is removed from the view, since RemovalMargin if one
// is set. It asks all of them, for any of them may have been the oldest in
// between; so it acts on the latest view only, and one change of the oldest is
// finished before the next is looked at. Down members are asked too, and waited
// for: only their removal, which needs convergence, proves that they stopped, or
// their word.
//
// HandOverToMe is sent only to members that the sender saw Exiting or Down, of
// which there is no way back. So its receiver obeys in every state, even before
// its own view shows it, and never starts an instance afterwards.
//
// An instance that stops by itself is started again after a pause that doubles.
// (The coordinator is the exception: package coordinator says why its driver
// ends the node instead.)
package singleton
