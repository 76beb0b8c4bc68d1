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

// Ledger has a sum, which its events give.
//
//shard:entity name=ledger shards=1 durable snapshot=3
type Ledger struct {
	ID      string `shard:"id"`
	Sum     int64  `shard:"state"`
	Journal shard.Journal[Booking]
}

// Apply adds a booking.
func (l *Ledger) Apply(b Booking) { l.Sum += b.Amount }

// Book records a booking.
func (l *Ledger) Book(_ context.Context, b Booking) (int64, error) {
	l.Journal.Record(l, b)
	return l.Sum, nil
}

// Get returns the sum.
//
//shard:read
func (l *Ledger) Get(context.Context) (sum int64, err error) { return l.Sum, nil }

// HostLedgerAs is HostLedger, as a type of another package.
func HostLedgerAs(n *shard.Node, path string) error {
	kind := ledgerKind()
	kind.Package = path
	return n.Host(codegen.Host{
		Kind:        kind,
		New:         func() any { return &Ledger{} },
		Dispatch:    map[string]codegen.Method{"Book": dispatchLedgerBook, "Get": dispatchLedgerGet},
		Reads:       map[string]bool{"Get": true},
		SetID:       setLedgerID,
		AppendState: appendLedgerState, DecodeState: decodeLedgerState, StateFields: knownLedgerState,
		Events: &codegen.Events{Every: 3, Take: takeLedgerEvents, Apply: applyLedgerEvent},
	})
}

// NewLedgerClientAs is NewLedgerClient for a type of another package.
func NewLedgerClientAs(c shard.Caller, path string) *LedgerClient {
	kind := ledgerKind()
	kind.Package = path
	return &LedgerClient{invoker: c.ShardInvoker(kind)}
}
