package splitbrain

// A Downing names the strategy by which unreachable members are judged.
type Downing uint8

// The strategies for unreachable members. DowningAuto and those below it follow Akka: its former
// auto-down and its split brain resolver. They do not use the broker's evidence that a member is
// gone. Of two equal halves of a cluster, DowningKeepMajority keeps the half with the oldest member,
// where Akka keeps the half with the lowest address.
const (
	// DowningBroker downs a gone member at once, and any other unreachable one by keep-majority.
	// The side with the majority of the last converged Up members downs the rest, and the other
	// side stops. Of two halves, the one with the oldest member downs the rest.
	DowningBroker Downing = iota
	// DowningManual leaves downing to an operator.
	DowningManual
	// DowningAuto lets the leader down every member that was unreachable for
	// AutoDownAfter. It is not safe: in a partition every side downs the others, and
	// each goes on as a cluster of its own, which hosts all shards.
	DowningAuto
	// DowningStaticQuorum lets the side with at least QuorumSize members go on.
	// With fewer members up no turns run, from the start on.
	DowningStaticQuorum
	// DowningKeepMajority lets the side with more than half of the members go on,
	// and of two halves the one with the oldest.
	DowningKeepMajority
	// DowningKeepOldest lets the side with the oldest member go on, however small,
	// unless the oldest is alone and KeepOldestAlone is not set.
	DowningKeepOldest
	// DowningAll makes all members stop when any is unreachable.
	DowningAll
	// DowningLeaseMajority keeps the side that takes a lease in a common store. The smaller side
	// waits for MinorityDelay before it tries. The driver must carry out Output.TakeLease.
	DowningLeaseMajority

	KnownDownings // the number of strategies
)

var DowningNames = [KnownDownings]string{
	DowningBroker: "broker", DowningManual: "by hand", DowningAuto: "auto", DowningStaticQuorum: "static quorum",
	DowningKeepMajority: "keep majority", DowningKeepOldest: "keep oldest", DowningAll: "down all",
	DowningLeaseMajority: "lease majority",
}

// String returns the name of the strategy.
func (d Downing) String() string {
	if d < KnownDownings {
		return DowningNames[d]
	}
	return "unknown"
}

// DiscountsGone reports whether, under strategy d, members that are gone lose their vote. The other
// strategies judge by reachability alone: they do not use the broker's evidence that a member is
// gone.
func (d Downing) DiscountsGone() bool { return d == DowningBroker || d == DowningManual }

// NewStrategy returns the strategy d. size is the quorum of DowningStaticQuorum; alone makes
// DowningKeepOldest keep the oldest member even when it is partitioned from all others.
func NewStrategy(d Downing, size int, alone bool) Strategy {
	switch d {
	case DowningStaticQuorum:
		return staticQuorum{size: size}
	case DowningKeepOldest:
		return keepOldest{alone: alone}
	case DowningAll:
		return downAll{}
	case DowningLeaseMajority:
		return leaseMajority{}
	case DowningAuto:
		return autoDown{}
	case DowningBroker, DowningManual, DowningKeepMajority:
	}
	return keepMajority{}
}
