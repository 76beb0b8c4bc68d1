package check

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"helm.sh/helm/v3/pkg/chart"
	chartloader "helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the manifests of the default values to ../kubernetes")

const manifests = "../kubernetes/worker.yaml"

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := chartloader.Load("../helm/shardgen-worker")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns the chart's manifests for values.
func render(c *chart.Chart, values map[string]any) (text string, err error) {
	release := chartutil.ReleaseOptions{Name: "counter", Namespace: "default", IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return "", err
	}
	var names []string
	for name := range files {
		if strings.HasSuffix(name, ".yaml") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString("---\n")
		}
		b.WriteString(strings.TrimSpace(files[name]) + "\n")
	}
	return b.String(), nil
}

// objects reads manifests strictly: an unknown field is an error.
func objects(t *testing.T, text string) (deployment apps.Deployment, budget policy.PodDisruptionBudget) {
	t.Helper()
	for _, manifest := range strings.Split(text, "\n---\n") {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(manifest), &kind); err != nil {
			t.Fatalf("%v\n%s", err, manifest)
		}
		into := map[string]any{"Deployment": &deployment, "PodDisruptionBudget": &budget}[kind.Kind]
		if into == nil {
			t.Fatalf("unknown kind %q:\n%s", kind.Kind, manifest)
		}
		if err := yaml.UnmarshalStrict([]byte(manifest), into); err != nil {
			t.Fatalf("%v\n%s", err, manifest)
		}
	}
	return deployment, budget
}

// TestManifests: the manifests are those of the chart's default values.
func TestManifests(t *testing.T) {
	text, err := render(load(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	text = "# The chart deploy/helm/shardgen-worker with its default values, for kubectl apply -f:\n# values.yaml says which secret it needs.\n" + text
	if *update {
		if err := os.WriteFile(manifests, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != text {
		t.Errorf("%s is stale: go test -C deploy/check -update .", manifests)
	}
}

// TestChart: what depends on other parts of the chart agrees with them, for values far from the
// defaults, too.
func TestChart(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"default": nil,
		"all": {
			"replicas": 5, "image": map[string]any{"repository": "example.com/shop", "tag": "1.2.3", "pullPolicy": "Always"},
			"args": []any{"serve", "-verbose"}, "natsSecret": map[string]any{"name": "nats", "key": "address"},
			"minMembers": 0, "leaveDelaySeconds": 20, "leaveTimeoutSeconds": 300, "healthPort": 9000, "metricsPort": 9464,
			"resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}, "env": []any{map[string]any{"name": "A", "value": "b"}},
			"podLabels": map[string]any{"team": "a"}, "podAnnotations": map[string]any{"note": "b"}, "nodeSelector": map[string]any{"disk": "none"},
			"tolerations": []any{map[string]any{"key": "k", "operator": "Exists"}},
			"affinity":    map[string]any{"nodeAffinity": map[string]any{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := render(load(t), values)
			if err != nil {
				t.Fatal(err)
			}
			d, budget := objects(t, text)
			pod := d.Spec.Template.Spec
			worker := pod.Containers[0]
			flags := map[string]string{}
			for i, arg := range worker.Args[:len(worker.Args)-1] {
				flags[arg] = worker.Args[i+1]
			}
			var delay, timeout int64 = 5, 60
			if values != nil {
				delay, timeout = 20, 300
			}
			if got := flags["-leave-delay"]; got != fmt.Sprint(delay, "s") {
				t.Errorf("-leave-delay is %q, want %ds", got, delay)
			}
			if got, want := *pod.TerminationGracePeriodSeconds, delay+timeout+10; got != want {
				t.Errorf("it is killed after %d s, want %d", got, want)
			}
			if p := worker.ReadinessProbe; delay < int64(p.PeriodSeconds*(p.FailureThreshold+1)) {
				t.Errorf("a member leaves after %d s, before two probes have failed", delay)
			}
			if got, want := flags["-health"], fmt.Sprint(":", worker.Ports[0].ContainerPort); got != want {
				t.Errorf("-health is %q, want %q", got, want)
			}
			for _, probe := range []*core.Probe{worker.LivenessProbe, worker.ReadinessProbe} {
				if probe.HTTPGet.Port.StrVal != worker.Ports[0].Name {
					t.Errorf("a probe asks port %v", probe.HTTPGet.Port)
				}
			}
			labels := d.Spec.Template.Labels
			for _, selector := range []map[string]string{d.Spec.Selector.MatchLabels, budget.Spec.Selector.MatchLabels, pod.TopologySpreadConstraints[0].LabelSelector.MatchLabels} {
				if len(selector) == 0 {
					t.Error("a selector is empty")
				}
				for key, value := range selector {
					if labels[key] != value {
						t.Errorf("a selector wants label %s=%s, which pods do not have", key, value)
					}
				}
			}
			if !*pod.SecurityContext.RunAsNonRoot || !*worker.SecurityContext.ReadOnlyRootFilesystem || *pod.AutomountServiceAccountToken {
				t.Error("the pod has more rights than it needs")
			}
		})
	}
}

// TestValues: values that cannot be meant are refused.
func TestValues(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"unknown":      {"replica": 3},
		"no members":   {"replicas": 0},
		"a wrong port": {"healthPort": 70000},
		"no image":     {"image": map[string]any{"repository": "", "tag": "1"}},
	} {
		if _, err := render(load(t), values); err == nil {
			t.Errorf("%s: %v is accepted", name, values)
		}
	}
}

// TestArguments: the program understands the arguments of the manifests, of Compose and of the unit.
func TestArguments(t *testing.T) {
	program := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", program, "./examples/counter").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := render(load(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := objects(t, text)
	commands := map[string][]string{"the chart": d.Spec.Template.Spec.Containers[0].Args}
	for _, s := range compose(t).Services {
		if s.Build != nil {
			commands["compose "+s.Name] = s.Command
		}
	}
	unit, err := os.ReadFile("../systemd/shardgen-worker@.service")
	if err != nil {
		t.Fatal(err)
	}
	_, start, _ := strings.Cut(string(unit), "ExecStart=")
	start, _, _ = strings.Cut(start, "\n")
	commands["the unit"] = strings.Fields(start)[1:]
	if len(commands) != 3 {
		t.Fatalf("want three commands, got %v", commands)
	}
	for name, args := range commands {
		// -h is the last flag, so those before it were understood.
		out, err := exec.Command(program, append(slices.Clone(args), "-h")...).CombinedOutput()
		if bytes.Contains(out, []byte("not defined")) || bytes.Contains(out, []byte("invalid value")) || !bytes.Contains(out, []byte("-min-members")) {
			t.Errorf("%s: %v: %v\n%s", name, args, err, out)
		}
	}
}

// compose reads the file for Compose, against its schema.
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
