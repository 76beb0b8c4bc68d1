package fault

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/load"
	"github.com/shardgen/shardgen/internal/e2e/node"
)

// Options say how a fault is run. The zero value of a number is its default.
type Options struct {
	Cluster cluster.Options
	Nodes   int // before the fault. Default: the fault's
	Load    load.Options
	Calls   int // the least number of calls. Default 20,000
	Rounds  int // for faults that have several. Default: the fault's
	Victim  int // 1 is the oldest node, Nodes the youngest. Default: the fault's
	// Length is how long the fault lasts. Default: the fault's.
	Length time.Duration
	// Times is the number of strikes. Default: the fault's.
	Times int
	// Messages is the number of a stream's messages before the fault, and again during the fault.
	// Default 100,000.
	Messages int
	// Tail is how long calls go on after the fault took effect. Default 2s.
	Tail time.Duration
	// Settle bounds the time from a broker fault until calls reach their former rate.
	// Default 5s.
	Settle time.Duration
	// Say receives progress messages. Default: none.
	Say func(format string, args ...any)
}

func (o Options) withDefaults(f Fault) Options {
	set(&o.Nodes, f.Nodes)
	set(&o.Nodes, 3)
	set(&o.Length, f.Length)
	set(&o.Times, f.Times)
	set(&o.Cluster.Servers, f.Servers)
	set(&o.Cluster.Replicas, f.Replicas)
	o.Cluster.Singleton = o.Cluster.Singleton || f.Singleton || f.Subject == OnSingleton || f.Subject == OnEveryNode
	o.Cluster.Pulses = f.Subject == OnRemembered || f.Subject == OnEveryNode
	o.Cluster.Durable = f.Subject == OnDurable || f.Subject >= OnDurable || f.Durable
	o.Cluster.Separate, o.Cluster.Near = f.Separate, f.Near
	o.Cluster.Direct, o.Cluster.Proxied = o.Cluster.Direct || f.Direct, f.Direct
	if f.Table {
		o.Cluster.TableApart = true
		set(&o.Cluster.Table, node.JetStream)
	}
	if f.Subject == OnStreams {
		o.Cluster.Stream, o.Cluster.Forward = streamName, f.Forward
		o.Cluster.MinMembers = o.Nodes // so that all nodes begin to read together
	}
	if f.MinMembers {
		o.Cluster.MinMembers = o.Nodes/2 + 1
	}
	set(&o.Load.Entities, f.Entities)
	set(&o.Load.Entities, 1000)
	set(&o.Messages, 100_000)
	set(&o.Load.Rate, f.Rate)
	set(&o.Load.Rate, 2000)
	set(&o.Rounds, f.Rounds)
	set(&o.Calls, 20_000)
	set(&o.Rounds, 5)
	set(&o.Tail, 2*time.Second)
	set(&o.Settle, 5*time.Second)
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return o
}

func set[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Validate returns an error if o cannot run the fault, or sets something that the fault ignores. Do
// calls it first.
func (o Options) Validate(f Fault) error {
	o = o.withDefaults(f)
	switch {
	case (f.Victim != 0 || f.Subject != UnderLoad) && o.Nodes < 2:
		return fmt.Errorf("%s removes a node: want at least 2 nodes", f.Name)
	case f.Subject != UnderLoad && o.Times < 1:
		return fmt.Errorf("%s strikes %v: -times must be at least 1", f.Name, f.Subject)
	case o.Nodes < 1 || o.Load.Entities < 1 || o.Load.Rate < 1 || o.Calls < 1 || o.Tail < 0:
		return errors.New("nodes, entities, rate and calls must be at least 1, and tail must not be negative")
	case o.Length < 0 || o.Times < 0 || o.Messages < 0:
		return errors.New("length, times and messages must not be negative")
	case o.Victim != 0 && f.Victim == 0:
		return fmt.Errorf("%s strikes no single node: omit -victim", f.Name)
	case o.Times > 0 && f.Times == 0:
		return fmt.Errorf("%s happens once: omit -times", f.Name)
	case o.Length > 0 && f.Length == 0:
		return fmt.Errorf("%s has no length: omit -length", f.Name)
	case o.Cluster.Table == node.JetStream && !f.Table && o.Cluster.URL != "":
		return errors.New("-membership table needs NATS servers with JetStream: omit -nats")
	case (f.Servers > 0 || f.Separate) && o.Cluster.URL != "":
		return fmt.Errorf("%s starts its own NATS servers: omit -nats", f.Name)
	case o.Victim < 0 || o.Victim > o.Nodes:
		return fmt.Errorf("victim %d: want 1 to %d", o.Victim, o.Nodes)
	}
	return nil
}

// injectBound returns how long the fault may take to have its full effect.
func (o Options) injectBound(f Fault) time.Duration {
	times := cmp.Or(f.Lengths, 1)
	if f.Rounds > 0 {
		times *= o.Rounds
	}
	return cmp.Or(f.Within, effectTimeout) + time.Duration(times)*o.Length
}

const startBound = 2 * time.Minute

// Bound returns how long a valid run of the fault takes at most: the start, the fault's full effect,
// all calls at half their rate, Tail, and Times strikes.
func (o Options) Bound(f Fault) time.Duration {
	o = o.withDefaults(f)
	calls := 2 * time.Duration(o.Calls) * time.Second / time.Duration(o.Load.Rate)
	strike := 2*effectTimeout + o.Length + f.Notice
	return startBound + o.injectBound(f) + calls + o.Tail + time.Duration(o.Times)*strike
}

// effectTimeout is the default bound until a fault has its full effect. Entities without answers by
// then count as silent.
const effectTimeout = 30 * time.Second
