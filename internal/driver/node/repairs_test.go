package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type refusing struct{}

func (refusing) MarshalJSON() ([]byte, error) { return nil, errors.New("no") }

type panicking struct{}

func (panicking) MarshalJSON() ([]byte, error) { panic("no") }

type home struct {
	Town string
	Key  string `shard:"secret"`
}

// A person has a secret, and another secret in an embedded struct.
type person struct {
	Name string
	PIN  int `shard:"text,secret" json:"pin"`
	home
	hidden string
}

// ownForm has its own JSON form, which would show its secret.
type ownForm struct {
	PIN int `shard:"secret"`
}

func (f ownForm) MarshalText() ([]byte, error) { return []byte(fmt.Sprint(f.PIN)), nil }

// plainForm has its own JSON form, and no secret that its type shows.
type plainForm struct{ v any }

func (plainForm) MarshalText() ([]byte, error) { return []byte("plain"), nil }

type chain struct {
	Key  string `shard:"secret"`
	Next *chain
}

func endless() *chain {
	c := &chain{}
	c.Next = c
	return c
}

// TestStateJSON: operators see the state in the order of the struct, without secrets. If a part of
// the state cannot be shown, they see nothing.
func TestStateJSON(t *testing.T) {
	for name, tt := range map[string]struct {
		entity any
		want   string
	}{
		"fields": {&struct {
			ID    string   `shard:"id"`
			Total int64    `shard:"state"`
			Lines []string `shard:"state,text"`
			Cache []byte   `shard:"-"`
		}{"ann", 9007199254740993, []string{"tea"}, []byte("x")}, `{"Total":9007199254740993,"Lines":["tea"]}`},
		"secrets": {&struct {
			Card    string   `shard:"state,secret"`
			Key     refusing `shard:"state,binary,secret"`
			Country string   `shard:"state"`
		}{"4242", refusing{}, "ch"}, `{"Card":"(secret)","Key":"(secret)","Country":"ch"}`},
		"secrets inside": {&struct {
			Owner  person            `shard:"state"`
			Others []*person         `shard:"state"`
			ByName map[string]person `shard:"state"`
			Any    any               `shard:"state"`
			None   *person           `shard:"state"`
			Own    ownForm           `shard:"state"`
			Plain  plainForm         `shard:"state"`
		}{
			person{Name: "ann", PIN: 1234, home: home{Town: "bern", Key: "k"}, hidden: "x"},
			[]*person{{Name: "bob", PIN: 5}, nil},
			map[string]person{"b": {PIN: 6}, "a": {}},
			person{PIN: 7},
			nil,
			ownForm{PIN: 8},
			plainForm{9},
		}, `{"Owner":{"Name":"ann","pin":"(secret)","Town":"bern","Key":"(secret)"},` +
			`"Others":[{"Name":"bob","pin":"(secret)","Town":"","Key":"(secret)"},null],` +
			`"ByName":{"a":{"Name":"","pin":"(secret)","Town":"","Key":"(secret)"},"b":{"Name":"","pin":"(secret)","Town":"","Key":"(secret)"}},` +
			`"Any":{"Name":"","pin":"(secret)","Town":"","Key":"(secret)"},"None":null,"Own":"(secret)","Plain":"plain"}`},
		"too deep": {&struct {
			First *chain `shard:"state"`
		}{endless()}, ""},
		"no fields": {&struct{}{}, `{}`},
		"no form": {&struct {
			A refusing `shard:"state"`
		}{}, ""},
		"panic": {&struct {
			A panicking `shard:"state"`
		}{}, ""},
		"large": {&struct {
			A string `shard:"state"`
		}{strings.Repeat("a", maxStateJSON)}, ""},
		"not a struct": {new(int), ""},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, StateJSON(tt.entity)) })
	}
}

// TestEveryDurableTypeIsSwept: types without a ttl are swept too, but rarely, because forgotten
// entities leave records for the keys of their commands.
func TestEveryDurableTypeIsSwept(t *testing.T) {
	require.True(t, sweepOf(time.Hour).On)
	seldom := sweepOf(0)
	require.True(t, seldom.On)
	require.GreaterOrEqual(t, seldom.Rest, 24*time.Hour)
}
