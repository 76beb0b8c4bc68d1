package remember

import (
	"time"

	"github.com/shardgen/shardgen/transport"
)

// Config are a machine's settings. Zero values mean the defaults.
type Config struct {
	// Self is the node that the machine runs on.
	Self transport.Address
	// Kinds are the types that it remembers, by name; those that are missing have
	// the defaults.
	Kinds map[string]Kind
	// MaxBatch bounds the bytes of ids in one message, up to one id more. Default
	// 48 KiB.
	MaxBatch int
	// Resend is the time between two sendings of a message that is not answered.
	// Default 300ms.
	Resend time.Duration
	// Patience is how long a recall waits for members that do not answer and are
	// not removed either. Default 5s.
	Patience time.Duration
	// DropDelay is how long the message that a set is not needed waits for others
	// of its kind. Default 1s.
	DropDelay time.Duration
}

// A Kind has the settings of one entity type.
type Kind struct {
	Replicas int // replicas of each shard, beside its home. Default 2
	Max      int // ids of one shard. Default 10,000
}

func (k Kind) withDefaults() Kind {
	if k.Replicas == 0 {
		k.Replicas = 2
	}
	if k.Max == 0 {
		k.Max = 10_000
	}
	return k
}

func (c Config) withDefaults() Config {
	set := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	if c.MaxBatch == 0 {
		c.MaxBatch = 48 << 10
	}
	set(&c.Resend, 300*time.Millisecond)
	set(&c.Patience, 5*time.Second)
	set(&c.DropDelay, time.Second)
	return c
}
