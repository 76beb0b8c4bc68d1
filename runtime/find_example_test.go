package shard_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/shardtest"
)

// Stage is how far a ticket is.
type Stage string

// A Ticket is a copy of the durable entity Ticket of package wallet.
type Ticket struct {
	ID    string    `shard:"id"`
	Stage Stage     `shard:"state,index"`
	Due   time.Time `shard:"state,index"`
	Note  string    `shard:"state"`
}

// Example_find finds entities of a durable type by fields of their state that are tagged index.
func Example_find() {
	caller := shardtest.NewCaller()
	for i, id := range []string{"c", "a", "b"} {
		caller.Put("Ticket", id, &bank.Ticket{Stage: bank.Open, Due: time.Unix(int64(100-i), 0)})
	}
	late, err := lateTickets(context.Background(), bank.NewTicketClient(caller))
	fmt.Println(late, err)
	// Output: [b a c] <nil>
}

func lateTickets(ctx context.Context, tickets *bank.TicketClient) (late []string, err error) {
	for id, err := range tickets.FindByDueBetween(ctx, time.Time{}, time.Now()) {
		if err != nil {
			return nil, err
		}
		late = append(late, id)
	}
	return late, nil
}
