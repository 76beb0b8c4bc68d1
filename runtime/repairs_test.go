package shard

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type refusing struct{}

func (refusing) MarshalJSON() ([]byte, error) { return nil, errors.New("no") }

type panicking struct{}

func (panicking) MarshalJSON() ([]byte, error) { panic("no") }

// TestStateJSON: operators see the state in the order of the struct, without secrets, and nothing
// rather than a part.
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
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, stateJSON(tt.entity)) })
	}
}
