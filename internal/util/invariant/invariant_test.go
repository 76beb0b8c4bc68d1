package invariant_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/util/invariant"
)

func TestFailfPanicsWithItsMessage(t *testing.T) {
	defer func() {
		err, ok := recover().(error)
		if !ok {
			t.Fatalf("got %v, want an error", err)
		}
		var v *invariant.Violation
		if !errors.As(err, &v) || v.Message != "shard 7: two homes" {
			t.Errorf("got %#v, want the message", err)
		}
		if !strings.HasPrefix(err.Error(), "invariant violated: shard 7: two homes (") {
			t.Errorf("got %q", err)
		}
	}()
	invariant.Failf("shard %d: %s", 7, "two homes")
}

func TestEnabledFollowsTheTag(t *testing.T) {
	if invariant.Enabled != tagged {
		t.Errorf("Enabled is %v, want %v", invariant.Enabled, tagged)
	}
}

// TestOtherBuild runs this package's tests with the other setting of the build tag, so that a plain
// go test covers both builds.
func TestOtherBuild(t *testing.T) {
	if tagged {
		t.Skip("run from the untagged build")
	}
	out, err := exec.Command("go", "test", "-tags", "shardgen_invariants", "-run", "TestEnabled|TestFailf", ".").CombinedOutput()
	if err != nil {
		t.Errorf("go test -tags shardgen_invariants: %v\n%s", err, out)
	}
}
