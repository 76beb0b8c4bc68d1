package yesterday

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// Booking is the event of Purse. Package today's has more parts.
type Booking struct {
	Amount int64
	Old    string // gone today
	Parts  []Part
	Where  Place
	By     Means
}

// Part is an element of a list in Booking.
type Part struct{ Count int64 }

// Place is a struct in Booking.
type Place struct{ Room int64 }

// Means is an interface in Booking: how the amount was paid.
//
//shard:oneof
type Means interface{ isMeans() }

// Cash is a case of Means.
type Cash struct{ Coins int64 }

func (Cash) isMeans() {}

// Purse is a sum of its events.
//
//shard:entity name=purse shards=1 durable snapshot=3
type Purse struct {
	ID      string `shard:"id"`
	Sum     int64  `shard:"state"`
	Journal shard.Journal[Booking]
}

// Apply adds a booking to the sum.
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

// HostPurseAs hosts purses as a type of the package at path.
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

// NewPurseClientAs returns a client of purses that are a type of the package at path.
func NewPurseClientAs(c shard.Caller, path string) *PurseClient {
	kind := purseKind()
	kind.Package = path
	return &PurseClient{invoker: c.ShardInvoker(kind)}
}
