package natstransport

import "testing"

// TestMayAnswer: a host publishes nowhere but to its caller's inbox, whatever the caller names.
func TestMayAnswer(t *testing.T) {
	for _, tt := range []struct {
		caller, reply string
		want          bool
	}{
		{"web", "_INBOX.web.x", true},
		{"web", "_INBOX.web.x.1", true},
		{"web", "_INBOX.web.", false},
		{"web", "_INBOX.web", false},
		{"web", "_INBOX.web2.x", false},
		{"web", "_INBOX.x", false},
		{"web", "$JS.API.STREAM.PURGE.orders", false},
		{"web", "sh.c.m.all", false},
		{"web", "_INBOX.web.>", false},
		{"web", "_INBOX.web.*", false},
		{"web", "_INBOX.web.a b", false},
		{"any", "_INBOX.web.x", true},
		{"any", "_INBOX.", false},
		{"any", "$JS.API.STREAM.PURGE.orders", false},
		{"any", "sh.c.m.all", false},
	} {
		if got := mayAnswer(tt.caller, tt.reply); got != tt.want {
			t.Errorf("mayAnswer(%q, %q) = %v, want %v", tt.caller, tt.reply, got, tt.want)
		}
	}
}

// FuzzMayAnswer checks that no reply subject leads out of the caller's inbox.
func FuzzMayAnswer(f *testing.F) {
	f.Add("web", "_INBOX.web.x")
	f.Add("any", "_INBOX.x")
	f.Add("web", "$JS.API.STREAM.PURGE.orders")
	f.Fuzz(func(t *testing.T, caller, reply string) {
		if !mayAnswer(caller, reply) {
			return
		}
		if len(reply) < 8 || reply[:7] != "_INBOX." || caller != "any" && reply[:7+len(caller)+1] != "_INBOX."+caller+"." {
			t.Fatalf("the reply subject %q of %q is accepted", reply, caller)
		}
	})
}
