// Package singleton keeps one instance of a service on the oldest member of a cluster, as pure
// cores: the cluster singleton of Akka. The shard coordinator runs on it, and so do users'
// singletons.
//
// # The manager
//
// Every node that may run the instance has a [Manager]. The instance belongs to the oldest
// member that is Up or Leaving (with the role, if there is one). A member that becomes Exiting
// hands off:
//
//	old: Oldest --Exiting--> WasOldest --HandOverToMe--> HandingOver --stopped--> End
//	new: Younger --oldest--> BecomingOldest --HandOverDone or removed--> Oldest
//
//	old → new  TakeOverFromMe      until HandOverToMe comes
//	new → old  HandOverToMe        until HandOverDone comes, or old is removed
//	old → new  HandOverInProgress  the instance is stopping
//	old → new  HandOverDone        it has stopped, and never starts again there
//
// Users' singletons hand off at Leaving already ([Config].HandoffAt), like shards: a member
// exits only when it has nothing left to give. The coordinator stays until Exiting, because it
// has to empty the leaving member; its terms allow that an exiting member is removed before it
// has stopped.
//
// A member that leaves while it becomes the oldest may already have been handed the state. It
// says HandOverDone only when the older members have said it, or are removed. State that has come
// goes on to the next oldest as from any oldest, but no instance begins in between:
//
//	BecomingOldest --Leaving--> Relaying --HandOverToMe--> HandingOver --sent--> End
//
// A leaving member keeps its instance while another one is Up or joining. When there is none
// ([Manager.Alone]), the driver sends Quit, and volatile state ends.
//
// A manager starts the instance only when every member that is older than itself has said
// HandOverDone or is removed from the view, since RemovalMargin if one is set. It asks all of
// them, because any of them may have been the oldest in between. So it acts only on the latest
// view, and finishes one change of the oldest before it looks at the next. It also asks Down
// members, and waits for them: only their answer, or their removal, which needs convergence
// and fencing, proves that they stopped.
//
// HandOverToMe is sent only to members that the sender saw leaving or Down. Its receiver obeys
// once its own view shows that it leaves, which is final, and never starts an instance
// afterwards. Before that it does not answer: the sender may belong to the other half of a
// cluster that fell apart, and have downed it there, and that half may be the one that ends.
// Nor does it obey a sender that it sees as Down, or not at all.
//
// An instance that stops by itself is started again after a pause that doubles. (The
// coordinator is the exception: package coordinator says why its driver ends the node
// instead.)
//
// # The lease
//
// With [Config].Lease the instance runs only under a lease, so that there is one even where
// two halves of a cluster each believe to be the whole:
//
//	alone --AcquireLease--> AcquiringLease --LeaseAcquired--> Oldest
//	Oldest --LeaseLost--> LosingLease --stopped--> AcquiringLease
//	HandingOver --stopped--> ReleaseLease --LeaseReleased--> HandOverDone, End
//
// The lease is given back only when the instance has stopped, and HandOverDone is sent after
// that. The lease of a node that crashes lasts until it ends by itself.
//
// # The proxy
//
// Every process that calls the singleton has a [Proxy], which finds it:
//
//	proxy → oldest  Identify    every Interval while the instance is not found
//	oldest → proxy  Identity    it runs here under this epoch, or the reason why it does not
//	oldest → all    Identity    unasked, when an instance begins
//
// A client asks a member, its guide, whose own proxy searches for both; the guide also reports
// changes. Calls wait in package stream, within a bound; the oldest is dropped first.
package singleton
