package fault

import (
	"bytes"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	tests := []struct {
		args   string
		code   int
		stdout string // parts of what is printed
		stderr string
	}{
		{"-list", exitOK, "leave            a node leaves in order", ""},
		{"-h", exitOK, "", "usage: fault -list"},
		{"", exitUsage, "", "usage: fault -list"},
		{"-list leave", exitUsage, "", "usage: fault -list"},
		{"earthquake", exitUsage, "", `unknown fault "earthquake" (-list prints all faults)`},
		{"leave kill", exitUsage, "", `unexpected argument "kill"`},
		{"leave -calls many", exitUsage, "", `invalid value "many"`},
		{"-bogus leave", exitUsage, "", "not defined: -bogus"},
		{"leave -nodes 1", exitUsage, "", "want at least 2 nodes"},
		{"join -rate -1", exitUsage, "", "must be at least 1"},
		{"kill -victim 6", exitUsage, "", "victim 6: want 1 to 5"},
		{"join -victim 1", exitUsage, "", "strikes no single node"},
		{"leave -times 3", exitUsage, "", "happens once"},
		{"kill -length 3s", exitUsage, "", "has no length"},
		{"pause -length -1s", exitUsage, "", "must not be negative"},
		{"remember -nodes 1", exitUsage, "", "want at least 2 nodes"},
		{"singleton-kill -times -1", exitUsage, "", "strikes a singleton's node: -times must be at least 1"},
		{"nats-outage -nats nats://x", exitUsage, "", "starts its own NATS servers"},
		{"partition -nats nats://x", exitUsage, "", "starts its own NATS servers"},
	}
	for _, tt := range tests {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), strings.Fields(tt.args), &stdout, &stderr)
		if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("fault %s: exit code %d, output %q, errors %q; want %d, %q, %q",
				tt.args, code, &stdout, &stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
}
