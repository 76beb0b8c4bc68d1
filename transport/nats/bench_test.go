package natstransport_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// The server is a process of its own in all benchmarks, as in production.

func benchLinks(b *testing.B) (url string, from, to transport.Link, toPeer, fromPeer transport.Peer) {
	b.Helper()
	url = natsproc.Start(b).URL()
	fromPeer.Address = transport.Address{Name: "from", Incarnation: 1}
	toPeer.Address = transport.Address{Name: "to", Incarnation: 2}
	return url, openLink(b, url, fromPeer.Address), openLink(b, url, toPeer.Address), toPeer, fromPeer
}

func openLink(t testing.TB, url string, self transport.Address, opts ...natstransport.Option) transport.Link {
	t.Helper()
	return openWith(t, url, transport.Options{Cluster: "c", Self: self, Lanes: 1}, opts...)
}

func openWith(t testing.TB, url string, o transport.Options, opts ...natstransport.Option) transport.Link {
	t.Helper()
	l, err := natstransport.New(url, opts...).Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// BenchmarkPingPong measures one message there and one back, one pair at a time.
func BenchmarkPingPong(b *testing.B) {
	for _, size := range []int{64, 1024} {
		payload := make([]byte, size)
		b.Run(fmt.Sprintf("Link/%dB", size), func(b *testing.B) {
			_, from, to, toPeer, fromPeer := benchLinks(b)
			go func() {
				for {
					m, err := to.Receive(0)
					if err != nil {
						return
					}
					_ = to.Send(0, fromPeer, 0, m.Payload)
				}
			}()
			b.ReportAllocs()
			for b.Loop() {
				if err := from.Send(0, toPeer, 0, payload); err != nil {
					b.Fatal(err)
				}
				if _, err := from.Receive(0); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("Request/%dB", size), func(b *testing.B) {
			from, to := benchConns(b)
			if _, err := to.Subscribe("ping", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
				b.Fatal(err)
			}
			if err := to.Flush(); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := from.Request("ping", payload, 5*time.Second); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchConns(b *testing.B) (from, to *nats.Conn) {
	b.Helper()
	url := natsproc.Start(b).URL()
	for _, nc := range []**nats.Conn{&from, &to} {
		c, err := nats.Connect(url)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Close)
		*nc = c
	}
	return from, to
}

// inFlight is how many messages the pipelined benchmarks keep on their way.
const inFlight = 512

// BenchmarkPipeline measures the cost of a message if many are on their way in one direction. "raw"
// uses nats.go alone, which is the limit.
func BenchmarkPipeline(b *testing.B) {
	for _, size := range []int{64, 4096, 64 << 10} {
		payload := make([]byte, size)
		b.Run(fmt.Sprintf("Link/%dB", size), func(b *testing.B) {
			_, from, to, toPeer, _ := benchLinks(b)
			pipeline(b, size,
				func() error { return from.Send(0, toPeer, 0, payload) },
				func() error { _, err := to.Receive(0); return err })
		})
		b.Run(fmt.Sprintf("Raw/%dB", size), func(b *testing.B) {
			from, to := benchConns(b)
			messages := make(chan *nats.Msg, 2*inFlight)
			if _, err := to.ChanSubscribe("bench", messages); err != nil {
				b.Fatal(err)
			}
			if err := to.Flush(); err != nil {
				b.Fatal(err)
			}
			done := b.Context()
			pipeline(b, size,
				func() error { return from.Publish("bench", payload) },
				func() error {
					select {
					case <-messages:
						return nil
					case <-done.Done():
						return context.Cause(done)
					}
				})
		})
	}
}

func pipeline(b *testing.B, size int, send, receive func() error) {
	credit := make(chan struct{}, inFlight)
	for range inFlight {
		credit <- struct{}{}
	}
	go func() {
		for receive() == nil {
			credit <- struct{}{}
		}
	}()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		<-credit
		if err := send(); err != nil {
			b.Fatal(err)
		}
	}
	for range inFlight { // the measured time includes messages still on their way
		<-credit
	}
}

// BenchmarkSend measures only the sender's cost.
func BenchmarkSend(b *testing.B) {
	_, from, to, toPeer, _ := benchLinks(b)
	go func() {
		for {
			if _, err := to.Receive(0); err != nil {
				return
			}
		}
	}()
	payload := make([]byte, 64)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := from.Send(0, toPeer, 1<<63, payload); err != nil {
			b.Fatal(err)
		}
		if n++; n%4096 == 0 { // otherwise the server slows the sender down
			b.StopTimer()
			if err := from.Flush(b.Context(), 0); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}
