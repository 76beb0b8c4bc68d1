package shardtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

// SeedVariable is the environment variable that sets the seed of tests without [Seed].
const SeedVariable = "SHARDTEST_SEED"

// An Option configures a cluster.
type Option func(*options)

type options struct {
	nodes       int
	host        []func(*shard.Node) error
	tune        []func(*shard.Config)
	seed        *uint64
	least, most time.Duration
}

// Nodes sets the number of nodes that New starts. They are named n1, n2 and so on, from the oldest
// to the youngest. Default 3; 0 starts none.
func Nodes(n int) Option { return func(o *options) { o.nodes = n } }

// Host adds a function that is called for each node before the node starts. The function should
// call the generated HostX of each type X under test. The option may be given several times.
func Host(host func(*shard.Node) error) Option {
	return func(o *options) { o.host = append(o.host, host) }
}

// Config adds a function that changes the config of each node, and of the client named "client",
// before its use. Name, Transport and Store are already set. Each process has its own client of the
// cluster's store as Store; the process named "client" uses its Store only to follow events.
func Config(tune func(*shard.Config)) Option {
	return func(o *options) { o.tune = append(o.tune, tune) }
}

// Seed sets the seed. Default: the environment variable SHARDTEST_SEED or, if it is not set, a
// random seed.
func Seed(seed uint64) Option { return func(o *options) { o.seed = &seed } }

// Latency sets how long messages are on their way. For each message the seed draws a duration from
// least to most. Messages between two processes keep their order. Default: messages arrive at once,
// so that a call through three nodes takes no virtual time and no fault can happen in its middle.
func Latency(least, most time.Duration) Option {
	return func(o *options) { o.least, o.most = least, most }
}

// theSeed returns the option's seed, the environment's, or a random one.
func (o *options) theSeed() (uint64, error) {
	text := os.Getenv(SeedVariable)
	switch {
	case o.seed != nil:
		return *o.seed, nil
	case text == "":
		return rand.Uint64() >> 32, nil // short enough to be copied by hand
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w (want a number)", SeedVariable, err)
	}
	return seed, nil
}
