package stream_test

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Route is a sender's way to a shard that moves: no call overtakes an older one.
func ExampleRoute() {
	a, b := transport.Address{Name: "a", Incarnation: 1}, transport.Address{Name: "b", Incarnation: 1}
	var r stream.Route
	fmt.Println(r.State, "- ask for its home:", r.Hold(stream.Outgoing{Driver: "first call"}))

	step := r.Learn(a, placement.MakeEpoch(1, 1), 0, false)
	fmt.Println(r.State, "at", r.Home.Name, "- deliver", step.Deliver[0].Driver)
	r.LastSeq = 7 // of that call, on the session to a

	step = r.Learn(b, placement.MakeEpoch(1, 2), 0, false)
	r.LastSeq = 8 // of the Flush
	fmt.Println(r.State, "- flush to", step.FlushTo.Name)
	r.Hold(stream.Outgoing{Driver: "second call"})
	step = r.Acked(a, 8)
	fmt.Println(r.State, "at", r.Home.Name, "- a barrier for what comes via", step.Via[0].Name, "and deliver", step.Deliver[0].Driver)
	// Output:
	// unknown - ask for its home: true
	// known at a - deliver first call
	// stopped - flush to a
	// known at b - a barrier for what comes via a and deliver second call
}

// A session keeps what it has sent until the other side has handled it.
func ExampleSession() {
	a, b := transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1}}, transport.Peer{Address: transport.Address{Name: "b", Incarnation: 1}}
	limits := stream.Config{MaxPayload: 1 << 20, Window: 1 << 20, MaxBuffered: 1 << 20}
	limits.Self = a
	there := stream.NewSession(limits, b)
	limits.Self = b
	back := stream.NewSession(limits, a)
	now := time.Unix(0, 0)

	for range 2 {
		if _, err := there.Append(&wire.Envelope{Type: wire.TypeTell, Kind: []byte("Cart"), Entity: []byte("42"), Method: []byte("Add")}); err != nil {
			fmt.Println(err)
			return
		}
	}
	// receive takes a frame, handles all of it and returns the sender's news.
	receive := func(p *stream.Session, payload []byte) {
		var reader wire.FrameReader
		h, envelopes, err := reader.Header(payload)
		if _, ok := p.Receive(&h, now); err != nil || !ok {
			fmt.Println("not taken:", err)
			return
		}
		fmt.Println(p.Peer().Name, "sent", h.Count, "envelopes,", len(envelopes) > 0)
		p.Ack(&h, now)
	}
	payload, _, _ := there.Take(now, 0) // one frame with both, to publish
	receive(back, payload)
	fmt.Println("acknowledged:", there.Acked())

	now = now.Add(stream.AckDelay) // nothing else goes back that it could ride on
	payload, _, _ = back.Take(now, back.Received())
	receive(there, payload)
	fmt.Println("acknowledged:", there.Acked())
	// Output:
	// a sent 2 envelopes, true
	// acknowledged: 0
	// b sent 0 envelopes, false
	// acknowledged: 2
}
