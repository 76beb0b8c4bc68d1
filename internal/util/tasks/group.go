// Package tasks starts goroutines with an owner. The owner waits for the goroutines of a [Group]; a
// [Loop] runs posted functions one after another.
package tasks

import (
	"context"
	"sync/atomic"
	"time"
)

// A Group counts running goroutines. Unlike with a sync.WaitGroup, goroutines may be added at any
// time: late timers and messages start goroutines while Wait waits, and afterwards. Wait returns as
// soon as no goroutine runs, and does not wait for goroutines added later.
//
// A Group is safe for concurrent use, but only one goroutine may call Wait at a time.
type Group struct {
	running atomic.Int64
	none    chan struct{} // has room for one signal that running was 0
}

// Init prepares the Group. It must be called once, before the other methods.
func (g *Group) Init() { g.none = make(chan struct{}, 1) }

// Go runs f on a new goroutine that the Group counts.
func (g *Group) Go(f func()) {
	g.Add()
	go func() {
		defer g.Done()
		f()
	}()
}

// Add counts one more running goroutine. Call Done when the goroutine ends.
func (g *Group) Add() { g.running.Add(1) }

// Done subtracts one running goroutine. Call it when a goroutine counted by Add ends.
func (g *Group) Done() {
	if g.running.Add(-1) == 0 {
		select {
		case g.none <- struct{}{}:
		default:
		}
	}
}

// Wait waits until all goroutines of the Group have ended, or until ctx ends. It returns false if a
// goroutine still runs.
func (g *Group) Wait(ctx context.Context) bool {
	for g.running.Load() != 0 {
		select {
		case <-g.none: // perhaps an old signal
		case <-ctx.Done():
			return g.running.Load() == 0
		}
	}
	return true
}

// Rest waits for d, or returns false if ctx ends first.
func Rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
