package natstransport_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// Two processes of a cluster exchange a message by way of a NATS server, here one
// in the same process.
func ExampleTransport() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	server, err := embedded.Start(embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Shutdown()
	open := func(name string) (transport.Link, transport.Peer, error) {
		self := transport.Address{Name: name, Incarnation: 1}
		link, err := natstransport.New(server.ClientURL()).Open(ctx, transport.Options{
			Cluster: "shop", Self: self, Lanes: 1, OnState: func(transport.Channel, transport.State) {},
		})
		return link, transport.Peer{Address: self}, err
	}
	a, _, err := open("a")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = a.Close() }()
	b, peer, err := open("b")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = b.Close() }()
	if err := a.Send(0, peer, 1, []byte("hello")); err != nil {
		fmt.Println(err)
		return
	}
	m, err := b.Receive(0)
	fmt.Println(string(m.Payload), err)

	nobody := transport.Peer{Address: transport.Address{Name: "c", Incarnation: 1}}
	if err := a.Send(0, nobody, 2, []byte("hello")); err != nil {
		fmt.Println(err)
		return
	}
	m, err = a.Receive(0)
	fmt.Println(m.Kind == transport.Unreachable, m.From.Name, m.Token, err)
	// Output:
	// hello <nil>
	// true c 2 <nil>
}
