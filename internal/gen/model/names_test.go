package model

import "testing"

func TestLower(t *testing.T) {
	for name, want := range map[string]string{
		"Stock": "stock", "OrderID": "orderID", "ID": "id", "HTTPServer": "httpServer", "A": "a", "AB": "ab", "ABc": "aBc", "already": "already", "Über": "über",
	} {
		if got := Lower(name); got != want {
			t.Errorf("Lower(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestDeclaresAllNames checks that Declares returns every name that generated code declares. A
// missing name could collide with a user's.
func TestDeclaresAllNames(t *testing.T) {
	e := &Entity{
		Name: "A", JSON: true, Hash: &Hash{}, ID: ID{Field: "ID"}, Hooks: Hooks{Activate: true, Passivate: true},
		State:   []Field{{}},
		Methods: []*Method{{Name: "Do", Params: []Param{{Type: &Type{}}, {Type: &Type{}}}, Results: []Param{{}}}, {Name: "Ping"}},
	}
	want := []string{
		"AAPI", "AClient", "NewAClient", "ARef", "ATell", "ASelf", "AExtractor", "aKind", "aJSON", "hashA", "dispatchADo", "appendADoArgs", "decodeADoReply", "jsonADoArgs", "jsonADoReply",
		"HostA", "setAID", "appendAState", "decodeAState", "knownAState", "activateA", "passivateA",
	}
	got := e.Declares()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("name %d is %s, want %s", i, got[i], want[i])
		}
	}
}
