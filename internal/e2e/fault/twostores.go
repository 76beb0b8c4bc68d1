package fault

import (
	"context"
	"fmt"
	"strings"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// twoStores is the fault in which a node with another store wants to join. It is refused, and calls
// go on as before.
var twoStores = Fault{
	Name:    "two-stores",
	About:   "a node whose store has another name joins, and must be refused",
	Subject: OnDurable,
	Nodes:   3,
	Servers: 1,
	Times:   5,
	Rate:    1000,
	Limits:  Limits{Failed: 0, Lost: 0, Doubled: 0, Recovery: 2500 * time.Millisecond},
	Hit: func(ctx context.Context, d *DurableRun) (Strike, error) {
		other, err := natsstore.Open(ctx, d.Cluster.URL(), natsstore.Config{Name: "other"})
		if err != nil {
			return Strike{}, err
		}
		defer other.Close()
		b := Strike{Victim: "nobody", At: time.Now()}
		n := shard.New(shard.Config{
			Cluster: d.Cluster.Name(), Name: fmt.Sprint("intruder", d.Before), Transport: natstransport.New(d.Cluster.URL()), Store: other,
		})
		defer func() { _ = n.Close() }()
		if err := n.Start(ctx); err == nil || !strings.Contains(err.Error(), "Config.Store is") {
			return b, fmt.Errorf("a node with another store: got %v, want a refusal that names both stores", err)
		}
		return b, nil
	},
}
