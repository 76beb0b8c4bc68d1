package main

import (
	"context"
	"io"
	"sync"
)

// channels are goroutines with a mailbox each.
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

// idleChannels has small mailboxes: an entity at rest has an empty one.
func idleChannels(context.Context, setup) (func(int) error, io.Closer, error) {
	c := new(channels)
	return func(i int) error {
		c.start(1)
		return c.tell(0, i, nil)
	}, c, nil
}
