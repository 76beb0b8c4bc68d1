// Package singleton keeps one instance of a service on the oldest member of a cluster, as pure
// state machines: the cluster singleton of Akka. It runs the shard coordinator and users'
// singletons.
//
// # The manager
//
// Every node that may run the instance has a [Manager]. The instance belongs to the oldest member
// that is Up or Leaving and has [Config].Role, if set. A member that becomes Exiting hands off:
//
//	old: Oldest --Exiting--> WasOldest --HandOverToMe--> HandingOver --stopped--> End
//	new: Younger --oldest--> BecomingOldest --HandOverDone or removed--> Oldest
//
//	old → new  TakeOverFromMe      until HandOverToMe comes
//	new → old  HandOverToMe        until HandOverDone comes, or old is removed
//	old → new  HandOverInProgress  the instance is stopping
//	old → new  HandOverDone        the instance has stopped, and never starts again at old
//
// Users' singletons hand off at Leaving already ([Config].HandoffAt), like shards: a member exits
// only when it has nothing left to give. The coordinator stays until Exiting, because it has to
// move shards away from the leaving member. That member may be removed before its coordinator has
// stopped: the coordinators' terms are ordered.
//
// A member that leaves while it becomes the oldest may already have received the state. It passes
// the state on to the next oldest without starting an instance, and sends HandOverDone only when
// all older members have sent it or are removed:
//
//	BecomingOldest --Leaving--> Relaying --HandOverToMe--> HandingOver --sent--> End
//
// A leaving member keeps its instance while another one is Up or joining. When there is none
// ([Manager.Alone]), the driver sends Quit, the instance stops, and volatile state is lost.
//
// A manager starts the instance only when every older member has sent HandOverDone, or has been
// removed from the view for RemovalMargin. It asks all older members, because any of them may have
// been the oldest in between. It acts only on the latest view, and handles one change of the oldest
// member at a time. It also asks Down members and waits for them: only their answer, or their
// removal after convergence and fencing, proves that they stopped.
//
// HandOverToMe is sent only to members that the sender saw leaving or Down. The receiver obeys once
// its own view shows it leaving, which is final, and never starts an instance afterwards. Until
// then the receiver does not answer: the sender may be in the other half of a split cluster, which
// downed the receiver but may itself lose. For the same reason the receiver does not obey a sender
// that is Down or missing in its view.
//
// An instance that stops by itself is started again after a doubling pause. (The coordinator is the
// exception: package coordinator says why its driver ends the node instead.)
//
// # The lease
//
// With [Config].Lease the instance runs only under a lease, so there is at most one even if each
// half of a split cluster takes itself for the whole cluster:
//
//	alone --AcquireLease--> AcquiringLease --LeaseAcquired--> Oldest
//	Oldest --LeaseLost--> LosingLease --stopped--> AcquiringLease
//	HandingOver --stopped--> ReleaseLease --LeaseReleased--> HandOverDone, End
//
// The lease is given back only when the instance has stopped, and HandOverDone is sent after that.
// After a crash of the node, its lease lasts until it expires.
//
// # The proxy
//
// Every calling process has a [Proxy] to find the singleton:
//
//	proxy → oldest  Identify    every Interval while the instance is not found
//	oldest → proxy  Identity    the instance runs here with this epoch, or why it does not
//	oldest → all    Identity    unasked, when an instance begins
//
// A client asks a member, its guide. The guide's own proxy then searches for the client too, and
// the guide reports changes to the client. Package stream keeps a bounded number of waiting calls,
// and drops the oldest beyond the bound.
package singleton
