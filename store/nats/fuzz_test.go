package natsstore

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// FuzzPlainAck reads random bytes as an acknowledgement. What plainAck reads must equal what a JSON
// decoder reads.
func FuzzPlainAck(f *testing.F) {
	f.Add([]byte(`{"stream":"S_1","seq":7}`))
	f.Add([]byte(`{"stream":"S_1","seq":7,"duplicate":true}`))
	f.Add([]byte(`{"error":{"code":503},"stream":"S_1","seq":0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		seq, ok := plainAck(b, "S_1")
		if !ok || !json.Valid(b) { // without JSON, only the number is used
			return
		}
		var ack struct {
			Stream string
			Seq    uint64
		}
		if strings.Count(strings.ToLower(string(b)), `"se`) > 1 || strings.Count(strings.ToLower(string(b)), `"st`) > 1 || strings.Contains(string(b), `\`) {
			return // perhaps a key twice: JSON takes the last
		}
		if err := json.Unmarshal(b, &ack); err == nil && (ack.Stream != "S_1" || ack.Seq != seq) {
			t.Fatalf("%s: sequence %d, want %d", b, seq, ack.Seq)
		}
	})
}

// FuzzID reads random tokens of a subject as a record's id. An accepted id is the same after it was
// written and read again. Each id can be written.
func FuzzID(f *testing.F) {
	for _, token := range []string{"alice", "=3D41", "==Li4uLi4uLi4uLi4", "=", "=ZZ", "==!"} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		ids := []string{token}
		if id, err := idOf(token); err == nil {
			ids = append(ids, id)
		}
		for _, id := range ids {
			if again, err := idOf(idToken(id)); err != nil || again != id {
				t.Fatalf("got %q, %v, want %q", again, err, id)
			}
		}
	})
}

// FuzzReadPage reads random headers as an answer of JetStream's direct get with two messages.
func FuzzReadPage(f *testing.F) {
	f.Add("7", "204", "0", "9", "s")
	f.Add("x", "413", "", "", "")
	f.Add("-1", "", "1", "-1", "")
	f.Fuzz(func(t *testing.T, seq, status, pending, upTo, subject string) {
		m := func() *nats.Msg { return &nats.Msg{Header: nats.Header{}, Data: []byte(subject)} }
		data, end := m(), m()
		data.Header.Set("Nats-Sequence", seq)
		data.Header.Set("Nats-Subject", subject)
		data.Header.Set(headerSince, upTo)
		end.Header.Set("Status", status)
		end.Header.Set("Nats-Num-Pending", pending)
		end.Header.Set("Nats-UpTo-Sequence", upTo)
		for _, got := range [][]*nats.Msg{{end}, {data, end}, {data, data, end}, {data}} {
			p, err := readPage("S", got)
			if err == nil && len(p.messages) != len(got)-1 {
				t.Fatalf("%d messages, want %d", len(p.messages), len(got)-1)
			}
			for i := range p.messages {
				_, _ = p.messages[i].head(), p.messages[i].deleted()
			}
		}
	})
}
