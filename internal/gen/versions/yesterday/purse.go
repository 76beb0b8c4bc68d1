package yesterday

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// Booking is an event, of which today's has more.
type Booking struct {
	Amount int64
	Old    string // gone today
	Parts  []Part
	Where  Place
	By     Means
}

// Part is an element in an event.
type Part struct{ Count int64 }

// Place is a struct in an event.
type Place struct{ Room int64 }

// Means is how something was booked.
//
//shard:oneof
type Means interface{ isMeans() }

// Cash is a means.
type Cash struct{ Coins int64 }

func (Cash) isMeans() {}

// Purse has a sum, which its events give.
//
//shard:entity name=purse shards=1 durable snapshot=3
type Purse struct {
	ID      string `shard:"id"`
	Sum     int64  `shard:"state"`
	Journal shard.Journal[Booking]
}

// Apply adds a booking.
func (l *Purse) Apply(b Booking) { l.Sum += b.Amount }

// Book records a booking.
func (l *Purse) Book(_ context.Context, b Booking) (int64, error) {
	l.Journal.Record(l, b)
	return l.Sum, nil
}

// Get returns the sum.
//
//shard:read
func (l *Purse) Get(context.Context) (sum int64, err error) { return l.Sum, nil }

// HostPurseAs is HostPurse, as a type of another package.
func HostPurseAs(n *shard.Node, path string) error {
	kind := purseKind()
	kind.Package = path
	return n.Host(codegen.Host{
		Kind:        kind,
		New:         func() any { return &Purse{} },
		Dispatch:    map[string]codegen.Method{"Book": dispatchPurseBook, "Get": dispatchPurseGet},
		Reads:       map[string]bool{"Get": true},
		SetID:       setPurseID,
		AppendState: appendPurseState, DecodeState: decodePurseState, StateFields: knownPurseState,
		Events: &codegen.Events{Every: 3, Take: takePurseEvents, Apply: applyPurseEvent},
	})
}

// NewPurseClientAs is NewPurseClient for a type of another package.
func NewPurseClientAs(c shard.Caller, path string) *PurseClient {
	kind := purseKind()
	kind.Package = path
	return &PurseClient{invoker: c.ShardInvoker(kind)}
}
