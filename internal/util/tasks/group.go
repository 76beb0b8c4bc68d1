// Package tasks has goroutines with an owner: a [Group] to wait for, and a [Loop] that runs posted
// functions one after another.
package tasks

import (
	"context"
	"sync/atomic"
)

// A Group counts goroutines. Unlike a sync.WaitGroup it may count a new one at any time: timers
// and messages that come late start goroutines while Wait waits, and after it. Wait returns when
// none is left; those that start later are not waited for.
//
// It is safe for concurrent use, but only one goroutine may call Wait at a time.
type Group struct {
	running atomic.Int64
	none    chan struct{} // has room for one signal that running was 0
}

// Init prepares the Group. It is called once, before anything else.
func (g *Group) Init() { g.none = make(chan struct{}, 1) }

// Go runs f on a goroutine of the Group.
func (g *Group) Go(f func()) {
	g.Add()
	go func() {
		defer g.Done()
		f()
	}()
}

// Add counts one more goroutine, until Done.
func (g *Group) Add() { g.running.Add(1) }

// Done counts one goroutine less.
func (g *Group) Done() {
	if g.running.Add(-1) == 0 {
		select {
		case g.none <- struct{}{}:
		default:
		}
	}
}

// Wait waits until no goroutine is left, or ctx ends. It reports whether none is left.
func (g *Group) Wait(ctx context.Context) bool {
	for g.running.Load() != 0 {
		select {
		case <-g.none: // perhaps of long ago
		case <-ctx.Done():
			return g.running.Load() == 0
		}
	}
	return true
}
