// Package singleton keeps one instance of something on the oldest member of a
// cluster, as pure cores: the cluster singleton of Akka. The shard coordinator
// runs on it, and so do users' singletons.
//
// # The manager
//
// Every node that may run the instance has a [Manager]. The instance belongs to
// the oldest member that is Up or Leaving (with the role, if there is one). A
// member that becomes Exiting hands over:
//
//	old: Oldest --Exiting--> WasOldest --HandOverToMe--> HandingOver --stopped--> End
//	new: Younger --oldest--> BecomingOldest --HandOverDone or removed--> Oldest
//
//	old → new  TakeOverFromMe      until HandOverToMe comes
//	new → old  HandOverToMe        until HandOverDone comes, or old is removed
//	old → new  HandOverInProgress  the instance is stopping
//	old → new  HandOverDone        it has stopped, and never starts again there
//
// Users' singletons hand over at Leaving already ([Config].HandOverAt), like
// shards: a member exits only when it has nothing left to give. The coordinator
// stays until Exiting, for it has to empty the leaving member; its terms bear that
// an exiting member may be removed before it has stopped.
//
// A manager starts the instance only when every member that is older than itself
// has said HandOverDone or is removed from the view, since RemovalMargin if one
// is set. It asks all of them, for any of them may have been the oldest in
// between; so it acts on the latest view only, and one change of the oldest is
// finished before the next is looked at. Down members are asked too, and waited
// for: only their removal, which needs convergence and fencing, proves that they
// stopped, or their word.
//
// HandOverToMe is sent only to members that the sender saw on their way out, of
// which there is no way back. So its receiver obeys in every state, even before
// its own view shows it, and never starts an instance afterwards; unless it sees
// the sender as Down, or not at all: then the sender may be of another half of a
// cluster that fell apart.
//
// An instance that stops by itself is started again after a pause that doubles.
// (The coordinator is the exception: package coordinator says why its driver
// ends the node instead.)
//
// # The lease
//
// With [Config].Lease the instance runs only under a lease, so that there is one
// even where two halves of a cluster each believe to be the whole:
//
//	alone --AcquireLease--> AcquiringLease --LeaseAcquired--> Oldest
//	Oldest --LeaseLost--> LosingLease --stopped--> AcquiringLease
//	HandingOver --stopped--> ReleaseLease --LeaseReleased--> HandOverDone, End
//
// It is given back only when the instance has really stopped, and the word that
// it has stopped is given after that. A node that crashes keeps it until it ends.
//
// # The proxy
//
// Every process that calls the singleton has a [Proxy], which finds it:
//
//	proxy → oldest  Identify    every Interval while the instance is not found
//	oldest → proxy  Identity    it runs here under this epoch; or why it does not
//	oldest → all    Identity    unasked, when an instance begins
//
// A process that is no member asks one that is, its guide, whose own proxy
// searches for both; the guide also tells of changes. Calls wait in package call,
// within a bound, the oldest of them being dropped first.
package singleton
