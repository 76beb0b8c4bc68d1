package contract_test

import (
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/gen/contract"
)

// TestProtoTellsOfDurability checks that the .proto file says which methods are reads, and what a
// durable type keeps.
func TestProtoTellsOfDurability(t *testing.T) {
	file, err := contract.Descriptor(&contract.Contract{Kinds: []*contract.Kind{
		{
			Name: "Visit", Durable: true, TTL: 90, Version: 2,
			Events:  []*contract.Field{{Number: 1, Name: "event", Type: "string"}},
			Methods: []*contract.Method{{Name: "Get", Wire: "Get", Read: true}, {Name: "Add", Wire: "Add"}},
		},
		{Name: "Cache", Methods: []*contract.Method{{Name: "Get", Wire: "Get"}}},
	}}, "p")
	if err != nil {
		t.Fatal(err)
	}
	text, err := contract.Text(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n// Visit is durable. Its state has version 2. It expires 1h30m0s after its last change. It records events in a journal.\nservice VisitService {\n",
		"\n  rpc Get(VisitGetArgs) returns (VisitGetReply) { option idempotency_level = NO_SIDE_EFFECTS; }\n",
		"\n  rpc Add(VisitAddArgs) returns (VisitAddReply);\n",
		"\n\nservice CacheService {\n  rpc Get(CacheGetArgs) returns (CacheGetReply);\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
