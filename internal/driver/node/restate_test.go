package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// TestRestatedStateKeepsUnknownFields: events and migrations change only the known fields of a
// state that a newer program wrote.
func TestRestatedStateKeepsUnknownFields(t *testing.T) {
	state := func(known, unknown uint64) []byte {
		b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), known)
		return protowire.AppendVarint(protowire.AppendTag(b, 9, protowire.VarintType), unknown)
	}
	h := &codegen.Host{
		New: func() any { return new(uint64) },
		DecodeState: func(entity any, b []byte) (bool, error) {
			_, _, n := protowire.ConsumeTag(b)
			v, _ := protowire.ConsumeVarint(b[n:])
			*entity.(*uint64) = v
			return true, nil
		},
		AppendState: func(b []byte, entity any) ([]byte, error) {
			return protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), *entity.(*uint64)), nil
		},
		StateFields: func(num int) (bool, codegen.Fields) { return num == 1, nil },
	}
	got, err := restate(h, "x", state(5, 7), func(entity any) error { *entity.(*uint64)++; return nil })
	require.NoError(t, err)
	require.Equal(t, state(6, 7), got)
}
