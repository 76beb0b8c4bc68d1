package check

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// TestArguments: the program understands the arguments in the manifests, in the file for Compose
// and in the unit for systemd.
func TestArguments(t *testing.T) {
	program := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", program, "./examples/counter").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	commands := map[string][]string{}
	for _, set := range valueSets {
		commands["the chart, "+set.name] = read(t, mustRender(t, set.values)).Deployment.Spec.Template.Spec.Containers[0].Args
	}
	for _, s := range compose(t).Services {
		if s.Build != nil {
			commands["compose "+s.Name] = s.Command
		}
	}
	commands["the unit"] = strings.Fields(unit(t, "ExecStart"))[1:]
	if want := len(valueSets) + 2; len(commands) != want {
		t.Fatalf("want %d commands, got %v", want, commands)
	}
	for name, args := range commands {
		// -h is the last flag, so those before it were understood.
		out, err := exec.Command(program, append(slices.Clone(args), "-h")...).CombinedOutput()
		if bytes.Contains(out, []byte("not defined")) || bytes.Contains(out, []byte("invalid value")) || !bytes.Contains(out, []byte("-min-members")) {
			t.Errorf("%s: %v: %v\n%s", name, args, err, out)
		}
	}
}

// unit returns the value of a key in the unit for systemd.
func unit(t *testing.T, key string) string {
	t.Helper()
	text, err := os.ReadFile("../systemd/shardgen-worker@.service")
	if err != nil {
		t.Fatal(err)
	}
	_, value, ok := strings.Cut(string(text), "\n"+key+"=")
	if !ok {
		t.Fatalf("the unit has no %s", key)
	}
	value, _, _ = strings.Cut(value, "\n")
	return value
}

// TestStopTimes: Compose and systemd wait for LeaveDelay, LeaveTimeout and 10 s before they kill a
// worker, as docs/guide/deploying.md says. TestChart checks the chart.
func TestStopTimes(t *testing.T) {
	worker := compose(t).Services["worker"]
	stop, err := time.ParseDuration(unit(t, "TimeoutStopSec"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		stop time.Duration
	}{
		{"Compose", worker.Command, time.Duration(*worker.StopGracePeriod)},
		{"systemd", strings.Fields(unit(t, "ExecStart")), stop},
	} {
		delay, err := time.ParseDuration(flags(append(tt.args, ""))["-leave-delay"])
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if want := delay + 60*time.Second + 10*time.Second; tt.stop != want {
			t.Errorf("%s kills a worker after %v, want %v", tt.name, tt.stop, want)
		}
	}
}

// compose reads the file for Compose and checks it against its schema.
func compose(t *testing.T) *types.Project {
	t.Helper()
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: "..", ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: text}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestCompose(t *testing.T) {
	p := compose(t)
	worker, nats := p.Services["worker"], p.Services["nats"]
	if worker.Build.Dockerfile == "" || nats.Image == "" || *worker.Deploy.Replicas < 2 {
		t.Errorf("got %+v and %+v", worker, nats)
	}
	if _, err := os.Stat(filepath.Join(worker.Build.Context, worker.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	for name, on := range worker.DependsOn {
		if on.Condition == "service_healthy" && p.Services[name].HealthCheck == nil {
			t.Errorf("the worker waits for the health of %s, which has no check", name)
		}
	}
}
