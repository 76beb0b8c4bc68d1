package coordinator

import "github.com/shardgen/shardgen/internal/wire"

func pauseToWire(p Pause) *wire.CoordinatorPause {
	return &wire.CoordinatorPause{Seq: uint64(p.Seq), On: p.On, By: p.By, At: nanosOf(p.At)}
}
