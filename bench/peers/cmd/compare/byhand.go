package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/bench/limit"
)

// byHand is a contestant without entities. Functions that it lacks are nil.
type byHand struct {
	none
	closers
	echoes func(payload []byte) error
	tells  func(payload []byte) error
	count  func() (int64, error)
}

func (b *byHand) echo(_, _ int, payload []byte) error { return b.echoes(payload) }
func (b *byHand) tell(_, _ int, payload []byte) error { return b.tells(payload) }
func (b *byHand) Close() error                        { return b.closers.Close() }

func (b *byHand) told(int, int) (int64, error) { return b.count() }
func (b *byHand) total() (int64, error)        { return b.count() }

// arrived returns a function that flushes t and returns how many tells have arrived. The flushes
// themselves do not count.
func arrived(t *limit.Teller) func() (int64, error) {
	var mu sync.Mutex
	flushes := int64(0)
	return func() (int64, error) {
		mu.Lock()
		defer mu.Unlock()
		flushes++
		if err := t.Flush(); err != nil {
			return 0, err
		}
		_, n := t.Counts()
		return int64(n) - flushes, nil
	}
}

func hostByHand(_ context.Context, s setup, _ int) (string, io.Closer, error) {
	stop, err := limit.Serve(s.url)
	return "-", closing(stop), err
}

func dialRequest(_ context.Context, s setup, _ int) (entities, error) {
	h, err := limit.NewHand(s.url)
	if err != nil {
		return nil, err
	}
	return &byHand{closers: closers{closing(h.Close)}, echoes: h.Request}, nil
}

func dialBatched(_ context.Context, s setup, _ int) (entities, error) {
	h, err := limit.NewHand(s.url)
	if err != nil {
		return nil, err
	}
	return &byHand{
		closers: closers{closing(h.Close)}, tells: h.Teller.Tell, count: arrived(h.Teller),
		echoes: func(payload []byte) error {
			got, err := h.Requester.Ask(payload)
			return sameLength(got, payload, err)
		},
	}, nil
}

func complain(err error) { fmt.Fprintln(os.Stderr, "by hand:", err) }

func hostTCP(context.Context, setup, int) (string, io.Closer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	go func() { // ends with the process
		if err := limit.ServeTCP(l, complain); !errors.Is(err, net.ErrClosed) {
			complain(err)
		}
	}()
	return l.Addr().String(), l, nil
}

func dialTCP(_ context.Context, s setup, _ int) (entities, error) {
	t, err := limit.DialTCP(s.address, complain)
	if err != nil {
		return nil, err
	}
	return &byHand{
		closers: closers{closing(t.Close)}, tells: t.Teller.Tell, count: arrived(t.Teller),
		echoes: func(payload []byte) error {
			got, err := t.Requester.Ask(payload)
			return sameLength(got, payload, err)
		},
	}, nil
}

// hostPublish counts messages without a reply subject, and answers the other messages with the
// count.
func hostPublish(_ context.Context, s setup, _ int) (string, io.Closer, error) {
	conn, err := nats.Connect(s.url)
	if err != nil {
		return "", nil, err
	}
	var told uint64
	_, err = conn.Subscribe(s.cluster, func(m *nats.Msg) {
		if m.Reply == "" {
			told++
		} else if err := m.Respond(binary.LittleEndian.AppendUint64(nil, told)); err != nil {
			complain(err)
		}
	})
	return s.cluster, closing(conn.Close), errors.Join(err, conn.Flush())
}

func dialPublish(_ context.Context, s setup, _ int) (entities, error) {
	conn, err := nats.Connect(s.url)
	if err != nil {
		return nil, err
	}
	return &byHand{
		closers: closers{closing(conn.Close)},
		tells:   func(payload []byte) error { return conn.Publish(s.address, payload) },
		count: func() (int64, error) {
			m, err := conn.Request(s.address, nil, 10*time.Second)
			if err != nil {
				return 0, err
			}
			return int64(binary.LittleEndian.Uint64(m.Data)), nil
		},
	}, nil
}

type channels struct {
	none
	all   []chan chan int64 // nil is a tell
	owner sync.WaitGroup
}

func localChannels(_ context.Context, _ setup, n int) (entities, error) {
	c := new(channels)
	for range n {
		c.start(localWindow)
	}
	return c, nil
}

func (c *channels) start(room int) {
	mailbox := make(chan chan int64, room)
	c.all = append(c.all, mailbox)
	c.owner.Go(func() {
		var told int64
		for answer := range mailbox {
			if answer != nil {
				answer <- told
			} else {
				told++
			}
		}
	})
}

func (c *channels) tell(_, i int, _ []byte) error {
	c.all[i] <- nil
	return nil
}

func (c *channels) told(_, i int) (int64, error) {
	answer := make(chan int64)
	c.all[i] <- answer
	return <-answer, nil
}

func (c *channels) Close() error {
	for _, mailbox := range c.all {
		close(mailbox)
	}
	c.owner.Wait()
	return nil
}

// idleChannels makes one-message mailboxes, because at rest they are empty.
func idleChannels(context.Context, setup) (func(int) error, io.Closer, error) {
	c := new(channels)
	return func(i int) error {
		c.start(1)
		return c.tell(0, i, nil)
	}, c, nil
}

type mutexes struct {
	none
	all []struct {
		sync.Mutex
		balance int64
	}
}

func localMutexes(_ context.Context, _ setup, n int) (entities, error) {
	m := new(mutexes)
	m.all = make([]struct {
		sync.Mutex
		balance int64
	}, n)
	return m, nil
}

func (m *mutexes) add(_, i int) error {
	e := &m.all[i]
	e.Lock()
	e.balance++
	e.Unlock()
	return nil
}

type published struct {
	none
	*limit.Publishes
}

func (p published) add(_, i int) error { return p.Publish(i) }

func (p published) Close() error {
	p.Publishes.Close()
	return nil
}

func localPublishes(ctx context.Context, s setup, n int) (entities, error) {
	p, err := limit.NewPublishes(ctx, s.url, 1, n)
	if err != nil {
		return nil, err
	}
	return published{Publishes: p}, nil
}
