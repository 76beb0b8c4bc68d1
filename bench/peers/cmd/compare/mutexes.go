package main

import (
	"context"
	"sync"
)

// mutexes are structs with a lock each.
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
