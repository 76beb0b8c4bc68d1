package natsstore

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/store"
)

func TestTokensOfIDs(t *testing.T) {
	for id, want := range map[string]string{
		"alice":       "alice",
		"e/alice@x,1": "e/alice@x,1",
		"a.b *>":      "a=2Eb=20=2A=3E",
		"=41":         "=3D41",
		"==YQ":        "=3D=3DYQ",
		"é":           "=C3=A9",
		"\x00":        "=00",
		"...........": "==Li4uLi4uLi4uLi4",
	} {
		if got := idToken(id); got != want {
			t.Errorf("idToken(%q) = %q, want %q", id, got, want)
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	seen := map[string]string{}
	for i := range 20_000 {
		id := make([]byte, 1+random.IntN(6))
		if i%100 == 0 {
			id = make([]byte, store.MaxID)
		}
		for k := range id {
			if id[k] = "=A41.\x00\xff z"[random.IntN(9)]; i%2 == 0 {
				id[k] = byte(random.Uint32())
			}
		}
		token := idToken(string(id))
		if back, err := idOf(token); err != nil || back != string(id) {
			t.Fatalf("idOf(idToken(%q)) = %q, %v", id, back, err)
		}
		if other, ok := seen[token]; ok && other != string(id) {
			t.Fatalf("%q and %q are both %q", id, other, token)
		}
		seen[token] = string(id)
		if len(token) > 1400 || strings.ContainsAny(token, " .*>\r\n") {
			t.Fatalf("token %q of %d bytes", token, len(token))
		}
	}
	for _, token := range []string{"=", "=4", "=ZZ", "==!", "a="} {
		if id, err := idOf(token); err == nil {
			t.Errorf("idOf(%q) = %q, want an error", token, id)
		}
	}
}

// TestLongestNames: the longest names fit in a line of the protocol and in a folder's name.
func TestLongestNames(t *testing.T) {
	for _, name := range []string{strings.Repeat("n", store.MaxType), strings.Repeat(".", store.MaxType), "example.com/bank.Account"} {
		p := placeOf(strings.Repeat("c", maxName), store.Shard{Type: name, Number: store.MaxShards - 1}, maxPartitions)
		if subject := p.entities + idToken(strings.Repeat(".", store.MaxID)); len(subject) > 2000 {
			t.Errorf("a subject of %d bytes", len(subject))
		}
		if len(p.records) > 255 || strings.ContainsAny(p.records, " ./\\*>") {
			t.Errorf("stream %q of %d bytes", p.records, len(p.records))
		}
		if 2*len(p.head) > headerRoom {
			t.Errorf("the head takes %d bytes of the headers", len(p.head))
		}
	}
	if typeToken("a.b") == typeToken("a=2Eb") || typeToken("T") == typeToken("t") {
		t.Error("two types have one token")
	}
}
