package stream

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/shardgen/shardgen/internal/wire"
)

// TestFoundEnvelopeIsItsOwn: an envelope from Find stays as it is when its frame is acknowledged
// and another frame gets the buffer.
func TestFoundEnvelopeIsItsOwn(t *testing.T) {
	var sent wire.Envelope
	sent.Type, sent.ID = wire.TypeCall, 7
	fields := reflect.ValueOf(&sent).Elem()
	var slices []int
	for i := range fields.NumField() {
		if f := fields.Field(i); f.Type() == reflect.TypeFor[[]byte]() {
			f.SetBytes(bytes.Repeat([]byte{byte('a' + i)}, 8))
			slices = append(slices, i)
		}
	}
	if len(slices) < 8 {
		t.Fatalf("%d slices", len(slices))
	}
	for name, find := range map[string]func(q *frames, seq uint64) wire.Envelope{
		"found": func(q *frames, seq uint64) wire.Envelope {
			e, ok := q.Find(seq)
			if !ok {
				t.Fatal("not found")
			}
			return e
		},
		"not acknowledged": func(q *frames, _ uint64) wire.Envelope { return q.TakeUnacknowledged(false)[0].Envelope },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSession(Config{Self: peerNamed("a"), MaxPayload: 2000, Window: 1000, MaxBuffered: 3000}, peerNamed("b"))
			seq, err := s.Append(&sent)
			if err != nil {
				t.Fatal(err)
			}
			buf := s.list[len(s.list)-1].buf
			got := find(&s.frames, seq)
			clear(buf[:cap(buf)]) // as later frames write over it
			for _, i := range slices {
				if field := fields.Type().Field(i).Name; !bytes.Equal(reflect.ValueOf(got).Field(i).Bytes(), fields.Field(i).Bytes()) {
					t.Errorf("%s was the frame's: %q", field, reflect.ValueOf(got).Field(i).Bytes())
				}
			}
		})
	}
}
