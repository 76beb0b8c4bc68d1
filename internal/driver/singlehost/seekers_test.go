package singlehost

import (
	"slices"
	"testing"

	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// An outsider is a process outside the cluster that calls one singleton. Member a serves the
// outsider.
type outsider struct {
	caller
	asked []singleton.Envelope
}

var serving = transport.Address{Name: "a", Incarnation: 1}

func (o *outsider) Member() transport.Address { return serving }

func (o *outsider) Send(to transport.Peer, m singleton.Message) {
	o.asked = append(o.asked, singleton.Envelope{To: to.Address, Message: m})
}

// TestOutsiderAsksForSingletonsOnly: a process outside the cluster asks its gateway for a singleton
// that calls wait for. It does not search for a type that is not a singleton, because the shard
// table has the homes of other types.
func TestOutsiderAsksForSingletonsOnly(t *testing.T) {
	o := &outsider{}
	g := NewSeekers(o)
	if g.Want("Account") {
		t.Error("a type that is no singleton is looked for as one")
	}
	if len(o.asked) > 0 {
		t.Errorf("asked %+v about a type that is no singleton", o.asked)
	}
	if !g.Want("Leader") {
		t.Fatal("the singleton is not looked for")
	}
	want := []singleton.Envelope{{To: serving, Message: singleton.Message{Name: namePrefix + "Leader", Type: singleton.Identify, ID: 1}}}
	if !slices.Equal(o.asked, want) {
		t.Errorf("asked %+v, want %+v", o.asked, want)
	}
}

// TestOutsiderGoesWhereTheInstanceRuns: an answer to a search for a singleton makes calls go to its
// instance. An answer is ignored if this process does not look for the type, or if the answer is
// about an internal singleton of the cluster with that name.
func TestOutsiderGoesWhereTheInstanceRuns(t *testing.T) {
	o, at := &outsider{}, transport.Address{Name: "b", Incarnation: 1}
	g := NewSeekers(o)
	if !g.Want("Leader") {
		t.Fatal("the singleton is not looked for")
	}
	for _, tt := range []struct {
		name  string
		heard bool
	}{
		{"Leader", false}, // an internal singleton of the cluster
		{namePrefix + "Other", false},
		{namePrefix + "Leader", true},
	} {
		heard := g.Message(serving, singleton.Message{Name: tt.name, Type: singleton.Identity, ID: 1, Instance: at, Epoch: 3})
		if heard != tt.heard {
			t.Errorf("an answer about %q was heard: %v, want %v", tt.name, heard, tt.heard)
		}
		if found := slices.Equal(o.found, []transport.Address{at}); found != tt.heard {
			t.Errorf("after an answer about %q the calls go to %v", tt.name, o.found)
		}
	}
}
