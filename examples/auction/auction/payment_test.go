package auction_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/auction/auction"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
	memorystream "github.com/shardgen/shardgen/stream/memory"
)

// TestPayments lets each payment come three times while nodes are killed: it counts once, and each
// of its messages is applied once. A message that nobody can read does not delay the others.
func TestPayments(t *testing.T) {
	const payments = 30
	source := memorystream.New(1)
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		c.Settle() // a node that was never heard may be cut off, so that two such would end the third
		for n := range 3 * payments {
			paid, err := json.Marshal(auction.Paid{ID: fmt.Sprint("payment-", n%payments), User: "ann", Amount: 10})
			if err != nil {
				t.Fatal(err)
			}
			source.Publish(0, "payments.ann", paid)
		}
		source.Publish(0, "payments.ann", []byte("not JSON"))
		source.Publish(0, "payments.ann", []byte(`{"ID": "last", "User": "ann", "Amount": 1}`))
		for _, node := range []string{"n1", "n2"} {
			c.Advance(5 * time.Millisecond)
			c.Kill(node)
		}
		ann := auction.NewUserClient(c.Client()).Ref("ann", shard.Timeout(time.Hour))
		c.Until("all is paid", func() bool {
			free, err := ann.Free(t.Context())
			return err == nil && free >= 10*payments+1
		})
		c.Settle()
		c.Advance(time.Minute)
		if free, err := ann.Free(t.Context()); err != nil || free != 10*payments+1 {
			t.Errorf("got %d, %v; want %d", free, err, 10*payments+1)
		}
		for n := range payments {
			id := fmt.Sprint("payment-", n)
			if count, err := auction.NewPaymentClient(c.Client()).Ref(id).Count(t.Context()); err != nil || count != 3 {
				t.Errorf("%s came %d times, %v; want 3", id, count, err)
			}
		}
	}, shardtest.Nodes(3), shardtest.Host(auction.Host), shardtest.Host(func(n *shard.Node) error {
		return auction.HostPayments(n, source)
	}), shardtest.Latency(time.Millisecond, 10*time.Millisecond))
}
