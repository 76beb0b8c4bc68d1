package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// A contestant is one of the implementations that are compared: this project with certain settings,
// another project, or code written by hand. A function that the contestant lacks is nil.
type contestant struct {
	// local starts n entities in this process.
	local func(ctx context.Context, s setup, n int) (entities, error)
	// host starts n entities for callers in another process, and returns the address for dial.
	host func(ctx context.Context, s setup, n int) (address string, stop io.Closer, err error)
	// dial returns n entities of the process at s.address.
	dial func(ctx context.Context, s setup, n int) (entities, error)
	// idle starts a process in which make(i) makes an entity, which is idle afterwards.
	idle func(ctx context.Context, s setup) (make func(i int) error, stop io.Closer, err error)
	// member starts one of three members and returns when it knows the other two.
	member func(ctx context.Context, s setup) (member, error)
}

type setup struct {
	url     string // of the broker
	address string // of the host
	cluster string // a name that no other cell has
	number  int    // of a member, from 0
	ports   []int  // free ports of all members, the same at each member
}

const portsEach = 3

func (s setup) port(member, i int) int { return s.ports[member*portsEach+i] }

// entities are a contestant's entities as callers use them. worker is the caller's number, below
// maxWorkers.
type entities interface {
	// run runs f on a goroutine on which this worker may call, and returns at once.
	run(worker int, f func())
	// add calls entity i, which changes its state, and waits for the answer.
	add(worker, i int) error
	// echo calls entity i, which answers with the payload.
	echo(worker, i int, payload []byte) error
	// tell sends entity i the payload and does not wait.
	tell(worker, i int, payload []byte) error
	// told returns how many tells and adds entity i has run. It returns after all earlier tells of this worker
	// have run.
	told(worker, i int) (int64, error)
	// Close ends the entities, or the connection to them.
	io.Closer
}

const maxWorkers = 256

// none is embedded by partial implementations. Its calls fail.
type none struct{}

var errNone = errors.New("this contestant does not implement the call")

func (none) run(_ int, f func())          { go f() }
func (none) add(int, int) error           { return errNone }
func (none) echo(int, int, []byte) error  { return errNone }
func (none) tell(int, int, []byte) error  { return errNone }
func (none) told(int, int) (int64, error) { return 0, errNone }
func (none) Close() error                 { return nil }

// A member is one of a cluster's three members. It calls by id.
type member interface {
	// call calls an entity that need not exist before.
	call(id string) error
	io.Closer
}

type closers []io.Closer

func (c closers) Close() (err error) {
	for i := len(c) - 1; i >= 0; i-- {
		err = errors.Join(err, c[i].Close())
	}
	return err
}

type closing func()

func (f closing) Close() error {
	f()
	return nil
}

var contestants = map[string]contestant{
	"shardgen":          {local: localAccounts, host: hostAccounts, dial: dialAccounts, idle: idleAccounts, member: joinAccounts},
	"by id each time":   {local: localByID},
	"with references":   {idle: idleReferences},
	"direct":            {host: hostDirect, dial: dialDirect, member: joinDirect},
	"metrics on":        {local: localMeasured, host: hostMeasured, dial: dialMeasured},
	"one in 100 traced": {local: localTraced, host: hostTraced, dial: dialTraced},
	"metrics off":       {local: localAccounts, host: hostAccounts, dial: dialAccounts},
	"durable":           {local: localWallets},
	"durable read":      {local: localReads},
	"volatile":          {local: localAccounts},
	"mutex":             {local: localMutexes},
	"channel":           {local: localChannels, idle: idleChannels},
	"nats.Request":      {host: hostByHand, dial: dialRequest},
	"Publish":           {host: hostPublish, dial: dialPublish},
	"NATS batched":      {host: hostByHand, dial: dialBatched},
	"TCP batched":       {host: hostTCP, dial: dialTCP},
	"JetStream publish": {local: localPublishes},
	"protoactor":        {local: localProto, host: hostProto, dial: dialProto, idle: idleProto, member: joinProto},
	"grpc":              {host: hostGRPC, dial: dialGRPC},
}

// A group is a set of contestants that run the same cell. Each run gives the figures for all rows.
type group struct {
	name  string
	cell  cell
	ours  []string
	hand  []string // code written by hand
	peers []string
	rows  []row
}

func (g group) contestants() []string { return slices.Concat(g.ours, g.hand, g.peers) }

type cell struct {
	kind     string // local, remote, idle or cluster
	entities int
	run      func(entities, cell, time.Duration) (result, error)
	callers  int
	bytes    int
	window   int // a sender makes one ask in this many calls
}
