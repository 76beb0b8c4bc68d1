package main

import (
	"slices"
	"time"
)

// A group is cells that are measured together: each contestant's result has the figures of all rows.
type group struct {
	name  string
	cell  cell
	ours  []string
	hand  []string // code written by hand
	peers []string
	rows  []row
}

// contestants are the names of all cells of the group.
func (g group) contestants() []string { return slices.Concat(g.ours, g.hand, g.peers) }

// A cell is the work of one contestant in one round.
type cell struct {
	kind     string // local, remote, idle or cluster
	entities int
	run      func(entities, cell, time.Duration) (result, error)
	callers  int
	bytes    int
	window   int // a sender waits for its entity once in so many tells
}
