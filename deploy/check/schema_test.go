package check

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// releases are the releases of the Kubernetes client whose API types must accept the manifests.
var releases = []string{"v0.30.14", "v0.31.14", "v0.32.10", "v0.33.6", "v0.34.2"}

var schemaTypes = map[string]string{
	"Deployment":              "io.k8s.api.apps.v1.Deployment",
	"PodDisruptionBudget":     "io.k8s.api.policy.v1.PodDisruptionBudget",
	"HorizontalPodAutoscaler": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
	"NetworkPolicy":           "io.k8s.api.networking.v1.NetworkPolicy",
}

// TestReleases: each release of Kubernetes knows each field of the manifests, with its type, and
// Helm's linter accepts the chart. The schemas lack the ranges of values, which the server checks
// too.
func TestReleases(t *testing.T) {
	for _, release := range releases {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			parser := schemas(t, release)
			for _, set := range valueSets {
				for _, manifest := range strings.Split(mustRender(t, set.values), "\n---\n") {
					name := schemaTypes[kindOf(manifest)]
					if name == "" {
						continue // a PodMonitor is of Prometheus' operator
					}
					if _, err := parser.Type(name).FromYAML(typed.YAMLObject(manifest)); err != nil {
						t.Errorf("%s: %v\n%s", set.name, err, manifest)
					}
				}
			}
			for _, wrong := range []string{"spec: {replica: 3}", "spec: {replicas: many}"} {
				if _, err := parser.Type(schemaTypes["Deployment"]).FromYAML(typed.YAMLObject(wrong)); err == nil {
					t.Errorf("%s is accepted", wrong)
				}
			}
			version, err := chartutil.ParseKubeVersion("v1" + strings.TrimPrefix(release, "v0"))
			if err != nil {
				t.Fatal(err)
			}
			if !chartutil.IsCompatibleRange(load(t).Metadata.KubeVersion, version.Version) {
				t.Errorf("the chart refuses Kubernetes %s", version)
			}
			for _, set := range valueSets {
				values, _ := chartutil.ReadValues([]byte(set.values))
				for _, m := range lint.AllWithKubeVersion(chartFolder, values, "default", version).Messages {
					if m.Severity > support.InfoSev {
						t.Errorf("%s: %s", set.name, m)
					}
				}
			}
		})
	}
}

// schemas reads the types of a release from the source of the client, which is a Go module.
func schemas(t *testing.T, release string) *typed.Parser {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/client-go@"+release)
	c.Dir = t.TempDir() // outside of this module, which needs another release
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := c.Output()
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("the schemas cannot be downloaded: %v\n%s", err, out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(module.Dir, "applyconfigurations", "internal", "internal.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(source), "typed.YAMLObject(`")
	text, _, ok := strings.Cut(text, "`)")
	if !ok {
		t.Fatalf("the client %s has no schemas", release)
	}
	parser, err := typed.NewParser(typed.YAMLObject(text))
	if err != nil {
		t.Fatal(err)
	}
	return parser
}
