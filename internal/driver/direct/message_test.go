package direct

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/driver/direct/agree"
	"github.com/shardgen/shardgen/internal/wire"
)

var messages = []agree.Message{
	agree.Offer{Lane: 63, Nonce: agree.Nonce{1, 2}, Key: agree.Key{3}, Address: "10.0.0.1:7000"},
	agree.Offer{Nonce: agree.Nonce{1}, Key: agree.Key{3}},
	agree.Accept{Lane: 1, Nonce: agree.Nonce{4}, Key: agree.Key{5}, Address: "[::1]:7000"},
	agree.Refusal{Lane: 2, Nonce: agree.Nonce{6}, Reason: "no"},
	agree.Renewal{},
}

func TestMessages(t *testing.T) {
	for _, m := range messages {
		b, err := encode(m)
		require.NoError(t, err)
		got, err := decodeMessage(b)
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
}

func TestBadMessages(t *testing.T) {
	nonce, key := make([]byte, 16), make([]byte, 32)
	for name, d := range map[string]*wire.Direct{
		"empty":         {},
		"lane":          {Offer: &wire.DirectOffer{Lane: 1 << 20, Nonce: nonce, Key: key}},
		"short nonce":   {Offer: &wire.DirectOffer{Nonce: nonce[1:], Key: key}},
		"long key":      {Accept: &wire.DirectAccept{Nonce: nonce, Key: append(key, 1)}},
		"no key":        {Accept: &wire.DirectAccept{Nonce: nonce}},
		"long address":  {Offer: &wire.DirectOffer{Nonce: nonce, Key: key, Address: strings.Repeat("x", maxAddress+1)}},
		"refusal alone": {Refusal: &wire.DirectRefusal{}},
	} {
		b, err := proto.Marshal(d)
		require.NoError(t, err)
		_, err = decodeMessage(b)
		require.Error(t, err, name)
	}
}

func FuzzDecodeMessage(f *testing.F) {
	for _, m := range messages {
		b, err := encode(m)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMessage(b)
		if err != nil {
			return
		}
		again, err := encode(m)
		require.NoError(t, err)
		got, err := decodeMessage(again)
		require.NoError(t, err)
		require.Equal(t, m, got)
	})
}
