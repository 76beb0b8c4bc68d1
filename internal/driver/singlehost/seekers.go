package singlehost

import (
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// A Client is a process outside the cluster that calls singletons.
type Client interface {
	Finder
	// Member returns the member that serves the process; zero means none.
	Member() transport.Address
}

// Seekers find singletons for a process outside the cluster, by asking the member that serves it.
type Seekers struct {
	process Client
	byName  map[string]*seeker
}

type seeker struct {
	callable Callable
	proxy    *singleton.Proxy
	wake     time.Time
}

// NewSeekers returns Seekers that look for no singleton yet.
func NewSeekers(p Client) *Seekers {
	return &Seekers{process: p, byName: map[string]*seeker{}}
}

func (s *seeker) begin(kind string) (err error) {
	s.wake = time.Time{}
	s.proxy, err = singleton.NewProxy(singleton.ProxyConfig{Name: namePrefix + kind})
	return err
}

func (g *Seekers) all() iter.Seq2[string, *seeker] {
	return func(yield func(string, *seeker) bool) {
		for _, kind := range slices.Sorted(maps.Keys(g.byName)) {
			if !yield(kind, g.byName[kind]) {
				return
			}
		}
	}
}

// Want begins to look for a singleton's instance, because calls wait for the instance. It reports
// false if the type is not a singleton.
func (g *Seekers) Want(kind string) bool {
	s := g.byName[kind]
	if s == nil {
		callable := g.process.Callable(kind)
		if callable == nil {
			return false
		}
		s = &seeker{callable: callable}
		if err := s.begin(kind); err != nil {
			g.process.Log(slog.LevelError, "singleton cannot be called", "kind", kind, "err", err)
			return true
		}
		g.byName[kind] = s
		g.step(kind, s, singleton.Guide{Member: g.process.Member()})
	}
	g.step(kind, s, singleton.Want{})
	return true
}

func (g *Seekers) step(kind string, s *seeker, in singleton.ProxyInput) {
	out := s.proxy.Step(g.process.Now(), in)
	s.wake = out.WakeAt
	for _, e := range out.Send {
		g.process.Send(transport.Peer{Address: e.To}, e.Message)
	}
	g.process.SetWhy(kind, s.proxy.Why())
	if out.Found != nil {
		s.callable.Found(out.Found.Node, out.Found.Epoch, false)
	}
}

// Message handles a message of the member that serves the process. It reports false if no seeker
// waits for the message.
func (g *Seekers) Message(from transport.Address, m singleton.Message) bool {
	kind, _ := strings.CutPrefix(m.Name, namePrefix)
	s := g.byName[kind]
	if s == nil || m.Name != namePrefix+kind {
		return false
	}
	g.step(kind, s, singleton.Receive{From: from, Message: m})
	return true
}

// Guided makes all seekers ask the member that serves the process from now on.
func (g *Seekers) Guided() {
	for kind, s := range g.all() {
		g.step(kind, s, singleton.Guide{Member: g.process.Member()})
	}
}

// Lost informs the seekers that a member is gone.
func (g *Seekers) Lost(a transport.Address) {
	for kind, s := range g.all() {
		g.step(kind, s, singleton.Lost{Node: a})
	}
}

// BeginAnew forgets where the singletons ran, because the cluster was founded again.
func (g *Seekers) BeginAnew() {
	for kind, s := range g.all() {
		if err := s.begin(kind); err != nil {
			g.process.Log(slog.LevelError, "singleton cannot be called", "kind", kind, "err", err)
		}
	}
}

// WantWaiting looks again for the singletons that calls wait for. waits reports whether calls wait
// for a type.
func (g *Seekers) WantWaiting(waits func(kind string) bool) {
	for kind, s := range g.all() {
		if waits(kind) {
			g.step(kind, s, singleton.Want{})
		}
	}
}

// WakeAt returns the earlier of at and the first seeker's due time.
func (g *Seekers) WakeAt(at time.Time) time.Time {
	for _, s := range g.all() {
		if !s.wake.IsZero() && s.wake.Before(at) {
			at = s.wake
		}
	}
	return at
}

// Tick passes the time to the seekers that are due.
func (g *Seekers) Tick(now time.Time) {
	for kind, s := range g.all() {
		if !s.wake.IsZero() && !now.Before(s.wake) {
			g.step(kind, s, singleton.Tick{})
		}
	}
}
