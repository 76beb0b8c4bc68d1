package main

import (
	"slices"
	"time"
)

// A group is contestants that do the work of the same cell in turn. The result of each has the figures of all rows.
type group struct {
	name  string
	cell  cell
	ours  []string
	hand  []string // code written by hand
	peers []string
	rows  []row
}

// contestants are the names of all contestants: this project's forms, code written by hand, and other
// projects.
func (g group) contestants() []string { return slices.Concat(g.ours, g.hand, g.peers) }

// A cell is the work that each contestant of a group does in one round.
type cell struct {
	kind     string // local, remote, idle or cluster
	entities int
	run      func(entities, cell, time.Duration) (result, error)
	callers  int
	bytes    int
	window   int // a sender asks an entity once in so many tells
}
