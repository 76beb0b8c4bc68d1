package sim

import (
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/runtime/membership"
)

// Traffic counts the messages that a node has sent and received. Bytes are those of payloads: a message
// with all that the driver puts around it, without the subjects of the broker's protocol.
type Traffic struct {
	Sent, Received Flow
	Echo           Flow // own echoes, there and back; they are in none of the others
	// Kinds splits Sent and Received by the kind of message.
	Kinds map[string]Flow
}

// A Flow is a number of messages and their bytes.
type Flow struct{ Messages, Bytes uint64 }

func (f *Flow) add(size int32) {
	f.Messages++
	f.Bytes += uint64(size)
}

func (t *Traffic) count(m membership.Message, size int32, sent bool) {
	switch _, echo := m.(message.Echo); {
	case echo:
		t.Echo.add(size)
		return
	case sent:
		t.Sent.add(size)
	default:
		t.Received.add(size)
	}
	if t.Kinds == nil {
		t.Kinds = make(map[string]Flow)
	}
	kind := kindOf(m)
	f := t.Kinds[kind]
	f.add(size)
	t.Kinds[kind] = f
}

// kindOf returns the name of the type of a message or an input, without its package.
func kindOf(v any) string {
	name := fmt.Sprintf("%T", v)
	return name[strings.LastIndexByte(name, '.')+1:]
}
