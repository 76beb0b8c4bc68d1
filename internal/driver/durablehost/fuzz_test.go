package durablehost

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// FuzzKept reads random bytes as the ID of a command, as a tell and as an answer. If they are
// accepted, writing and reading the value again gives the same value.
func FuzzKept(f *testing.F) {
	f.Add(ID{Key: "payment-7"}.Append(nil))
	f.Add(ID{Source: 3, Number: 9, Log: durable.Target{Log: "Cart", Shard: 300}}.Append(nil))
	f.Add(Body{Method: "Add", Args: []byte{8, 1}, Info: []byte{16, 1}}.Append(nil))
	f.Add(Answer{Code: 1, Text: "no", Payload: []byte("x")}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := ReadID(b); err == nil {
			if again, err := ReadID(id.Append(nil)); err != nil || string(again.Append(nil)) != string(id.Append(nil)) {
				t.Fatalf("got %+v, %v, want %+v", again, err, id)
			}
		}
		if body, err := ReadBody(b); err == nil {
			again, err := ReadBody(body.Append(nil))
			if err != nil || again.Method != body.Method || string(again.Args) != string(body.Args) || string(again.Info) != string(body.Info) {
				t.Fatalf("got %+v, %v, want %+v", again, err, body)
			}
		}
		if r, err := ReadAnswer(b); err == nil {
			again, err := ReadAnswer(r.Append(nil))
			if err != nil || again.Code != r.Code || again.Text != r.Text || len(again.Payload) != len(r.Payload) || len(r.Payload) > 0 && !reflect.DeepEqual(again, r) {
				t.Fatalf("got %+v, %v, want %+v", again, err, r)
			}
		}
	})
}

// FuzzRecords reads random bytes as a named follower's record.
func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"format":1,"places":[{"Chunk":1,"Number":2}]}`))
	f.Add([]byte(`{"format":1,"places":[],"owner":"n1#00c0ffee00c0ffee/1"}`))
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readFollowed(store.Record{Key: "f", Value: b, Revision: 1})
		if err != nil {
			return
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := readFollowed(store.Record{Value: again}); err != nil || !reflect.DeepEqual(back, got) {
			t.Fatalf("got %+v, %v, want %+v", back, err, got)
		}
	})
}

// FuzzFounding reads random bytes as the record of who founded a cluster.
func FuzzFounding(f *testing.F) {
	f.Add([]byte(`{"format":1,"founder":{"name":"a","incarnation":"7"},"node":{"name":"b","incarnation":"8"},"server":"NABC"}`))
	f.Add([]byte(`{"founder":{"incarnation":7}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseFounding(b)
		if err != nil {
			return
		}
		again, err := formatFounding(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseFounding(again); err != nil || back != got {
			t.Fatalf("got %+v, %v, want %+v", back, err, got)
		}
	})
}
