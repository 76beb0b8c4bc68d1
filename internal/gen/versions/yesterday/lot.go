package yesterday

import (
	"context"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// Lot is in a room. Package today adds an index and a reminder.
//
//shard:entity name=lot shards=2 durable
type Lot struct {
	ID   string `shard:"id"`
	Room int32  `shard:"state"`
}

// Put moves the lot.
func (l *Lot) Put(_ context.Context, room int32) error {
	l.Room = room
	return nil
}

// Get returns the room.
//
//shard:read
func (l *Lot) Get(context.Context) (room int32, err error) { return l.Room, nil }

// HostLotAs hosts lots as a type of the package at path.
func HostLotAs(n *shard.Node, path string) error {
	kind := lotKind()
	kind.Package = path
	return n.Host(codegen.Host{
		Kind:        kind,
		New:         func() any { return &Lot{} },
		Dispatch:    map[string]codegen.Method{"Put": dispatchLotPut, "Get": dispatchLotGet},
		Reads:       map[string]bool{"Get": true},
		SetID:       setLotID,
		AppendState: appendLotState, DecodeState: decodeLotState, StateFields: knownLotState,
	})
}

// NewLotClientAs returns a client of lots that are a type of the package at path.
func NewLotClientAs(c shard.Caller, path string) *LotClient {
	kind := lotKind()
	kind.Package = path
	return &LotClient{invoker: c.ShardInvoker(kind)}
}
