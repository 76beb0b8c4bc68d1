package auction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/stream"
)

// A Payment is money that came from outside. The payment service may send it more than once, in
// separate messages, so each payment is an entity that counts its messages. The payment is
// forgotten when the service has stopped repeating it.
//
//shard:entity durable ttl=30d
type Payment struct {
	ID       string      `shard:"id"`
	Messages int64       `shard:"state"` // how often it came
	Users    *UserClient `shard:"-"`     // set by the factory
}

// Receive gives the amount to the user when the payment comes for the first time.
func (p *Payment) Receive(ctx context.Context, user string, amount int64) error {
	if p.Messages++; p.Messages > 1 {
		return nil
	}
	return p.Users.Tell(user).Deposit(ctx, amount)
}

// Count returns how often the payment came.
//
//shard:read
func (p *Payment) Count(context.Context) (int64, error) { return p.Messages, nil }

// Paid is a message of the payment service.
type Paid struct {
	ID, User string
	Amount   int64 // in cents
}

// HostPayments makes a node host payments, and apply the messages of source. The node must host
// users, too.
func HostPayments(n *shard.Node, source stream.Source) error {
	users, payments := NewUserClient(n), NewPaymentClient(n)
	return errors.Join(
		HostPayment(n, func() *Payment { return &Payment{Users: users} }),
		shard.Consume(n, "payments", source, func(ctx context.Context, m shard.Message) error {
			var paid Paid
			if err := json.Unmarshal(m.Data, &paid); err != nil {
				return fmt.Errorf("payment of %s: %w", m.Subject, err) // it becomes a dead letter
			}
			return payments.Tell(paid.ID).Receive(ctx, paid.User, paid.Amount)
		}),
	)
}
