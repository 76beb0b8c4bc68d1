package check

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	chartloader "helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the manifests of the default values to ../kubernetes")

const (
	chartFolder = "../helm/shardgen-worker"
	manifests   = "../kubernetes/worker.yaml"
)

// A valueSet is a set of the chart's values, with the expected members and objects.
type valueSet struct {
	name, values string
	least, most  int32 // members
	minMembers   string
	objects      string // kinds beside Deployment and PodDisruptionBudget
}

var digest = "sha256:" + strings.Repeat("0a", 32)

var valueSets = []valueSet{
	{"default", "", 3, 3, "2", ""},
	{"one", "replicas: 1", 1, 1, "1", ""},
	{"two", "replicas: 2", 2, 2, "2", ""},
	{"nine", "replicas: 9", 9, 9, "5", ""},
	{"chosen minimum", "{replicas: 4, minMembers: 1}", 4, 4, "1", ""},
	{"autoscaling", "autoscaling: {minReplicas: 3, maxReplicas: 5}", 3, 5, "3", "HorizontalPodAutoscaler"},
	{"autoscaling by a pool", "autoscaling: {minReplicas: 3, maxReplicas: 5, pool: {type: Resizer, perNode: 2}}", 3, 5, "3", "HorizontalPodAutoscaler"},
	{"autoscaling without partitions", "{minMembers: 1, autoscaling: {minReplicas: 2, maxReplicas: 20, cpuPercent: 50}}", 2, 20, "1", "HorizontalPodAutoscaler"},
	{"TLS and NKeys", `credentials:
  ca: {configMap: nats-ca, key: ca.crt}
  cert: {secret: worker-tls, key: tls.crt}
  key: {secret: worker-tls, key: tls.key}
  nkey: {secret: worker-nkey, key: seed}`, 3, 3, "2", ""},
	{"JWT and volumes", `credentials: {ca: {secret: ca, key: ca.crt}, creds: {secret: jwt, key: creds}}
volumes: [{name: cache, emptyDir: {}}]
volumeMounts: [{name: cache, mountPath: /cache}]
envFrom: [{secretRef: {name: shop}}]`, 3, 3, "2", ""},
	{"metrics by annotations", "metricsPort: 9464", 3, 3, "2", ""},
	{"metrics by a monitor, closed network", `metricsPort: 9464
podMonitor: {enabled: true, labels: {release: prometheus}}
networkPolicy: {enabled: true, metrics: [{namespaceSelector: {}}]}`, 3, 3, "2", "NetworkPolicy PodMonitor"},
	{"a fraction", "resources: {limits: {memory: 1.5G}}", 3, 3, "2", ""},
	{"no limits", "resources: {limits: null, requests: null}", 3, 3, "2", ""},
	{"all", `replicas: 5
image: {repository: example.com/shop, tag: 1.2.3, digest: "` + digest + `", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
args: [worker, -v]
natsSecret: {name: nats, key: address}
credentials: {nkey: {secret: worker, key: seed}}
minMembers: 4
leaveDelaySeconds: 20
leaveTimeoutSeconds: 300
healthPort: 9000
metricsPort: 9464
podMonitor: {enabled: true}
directPort: 7000
networkPolicy:
  enabled: true
  natsPort: 4223
  nats: [{podSelector: {matchLabels: {app: nats}}}]
  clients: [{podSelector: {matchLabels: {app: web}}}]
  egress: [{ports: [{port: 5432}]}]
resources: {limits: {memory: 1.5G}}
env: [{name: A, value: b}, {name: GOMEMLIMIT, value: 900MiB}]
podLabels: {team: a}
podAnnotations: {note: b}
serviceAccountName: shop
priorityClassName: high
nodeSelector: {disk: none}
tolerations: [{key: k, operator: Exists}]
affinity: {nodeAffinity: {}}`, 5, 5, "4", "NetworkPolicy PodMonitor"},
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := chartloader.Load(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns the chart's manifests for values, which are YAML.
func render(c *chart.Chart, values string) (text string, err error) {
	release := chartutil.ReleaseOptions{Name: "counter", Namespace: "default", IsInstall: true}
	own, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return "", err
	}
	all, err := chartutil.ToRenderValues(c, own, release, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return "", err
	}
	var parts []string
	for name, file := range files {
		if file = strings.TrimSpace(file); strings.HasSuffix(name, ".yaml") && file != "" {
			parts = append(parts, file+"\n")
		}
	}
	slices.SortFunc(parts, func(a, b string) int { return strings.Compare(kindOf(a), kindOf(b)) })
	return strings.Join(parts, "---\n"), nil
}

func mustRender(t *testing.T, values string) string {
	t.Helper()
	text, err := render(load(t), values)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func kindOf(manifest string) string {
	var m struct{ Kind string }
	_ = yaml.Unmarshal([]byte(manifest), &m)
	return m.Kind
}

type objects struct {
	Deployment              apps.Deployment
	PodDisruptionBudget     policy.PodDisruptionBudget
	HorizontalPodAutoscaler autoscaling.HorizontalPodAutoscaler
	NetworkPolicy           networking.NetworkPolicy
	PodMonitor              monitoring.PodMonitor
	kinds                   []string
}

// read parses manifests strictly: an unknown field is an error.
func read(t *testing.T, text string) *objects {
	t.Helper()
	o := new(objects)
	for _, manifest := range strings.Split(text, "\n---\n") {
		kind := kindOf(manifest)
		into := map[string]any{
			"Deployment": &o.Deployment, "PodDisruptionBudget": &o.PodDisruptionBudget, "NetworkPolicy": &o.NetworkPolicy,
			"HorizontalPodAutoscaler": &o.HorizontalPodAutoscaler, "PodMonitor": &o.PodMonitor,
		}[kind]
		if into == nil {
			t.Fatalf("unknown kind %q:\n%s", kind, manifest)
		}
		if err := yaml.UnmarshalStrict([]byte(manifest), into); err != nil {
			t.Fatalf("%v\n%s", err, manifest)
		}
		o.kinds = append(o.kinds, kind)
	}
	return o
}

// flags returns the values of the flags that the chart adds to the arguments of the program.
func flags(args []string) map[string]string {
	f := map[string]string{}
	for i, arg := range args[:len(args)-1] {
		f[arg] = args[i+1]
	}
	return f
}

// TestManifests: the committed manifests are what the chart renders with its default values.
func TestManifests(t *testing.T) {
	text := "# The chart deploy/helm/shardgen-worker with its default values, for kubectl apply -f:\n# values.yaml says which secret it needs.\n" + mustRender(t, "")
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

// TestChart: parts of the chart that depend on each other agree.
func TestChart(t *testing.T) {
	for _, set := range valueSets {
		t.Run(set.name, func(t *testing.T) {
			o := read(t, mustRender(t, set.values))
			want := append(strings.Fields(set.objects), "Deployment", "PodDisruptionBudget")
			slices.Sort(want)
			if !slices.Equal(o.kinds, want) {
				t.Errorf("objects %v, want %v", o.kinds, want)
			}
			values := load(t).Values
			own, _ := chartutil.ReadValues([]byte(set.values))
			values = chartutil.CoalesceTables(own, values)
			checkMembers(t, set, o)
			checkPod(t, values, o)
			checkCredentials(t, values, o.Deployment.Spec.Template.Spec)
			checkMemory(t, values, o.Deployment.Spec.Template.Spec.Containers[0])
			checkNetwork(t, values, o)
		})
	}
}

func checkMembers(t *testing.T, set valueSet, o *objects) {
	if got := flags(o.Deployment.Spec.Template.Spec.Containers[0].Args)["-min-members"]; got != set.minMembers {
		t.Errorf("-min-members is %s, want %s", got, set.minMembers)
	}
	replicas := o.Deployment.Spec.Replicas
	if a := o.HorizontalPodAutoscaler.Spec; a.MaxReplicas != 0 {
		if replicas != nil {
			t.Errorf("the deployment and the autoscaler both set the number of members")
		}
		if *a.MinReplicas != set.least || a.MaxReplicas != set.most || a.ScaleTargetRef.Name != o.Deployment.Name {
			t.Errorf("the autoscaler is %+v", a)
		}
		if _, ok := o.Deployment.Spec.Template.Spec.Containers[0].Resources.Requests[core.ResourceCPU]; !ok {
			t.Error("the autoscaler needs a request of processor time")
		}
	} else if *replicas != set.least {
		t.Errorf("%d members, want %d", *replicas, set.least)
	}
	b := o.PodDisruptionBudget.Spec
	if b.MaxUnavailable.IntValue() != 1 || b.UnhealthyPodEvictionPolicy == nil || *b.UnhealthyPodEvictionPolicy != policy.AlwaysAllow {
		t.Errorf("the budget is %+v", b)
	}
}

func checkPod(t *testing.T, values map[string]any, o *objects) {
	pod := o.Deployment.Spec.Template.Spec
	worker := pod.Containers[0]
	flags := flags(worker.Args)
	delay, timeout := int64(values["leaveDelaySeconds"].(float64)), int64(values["leaveTimeoutSeconds"].(float64))
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
	selectors := []map[string]string{o.Deployment.Spec.Selector.MatchLabels, o.PodDisruptionBudget.Spec.Selector.MatchLabels}
	var spread []string
	for _, s := range pod.TopologySpreadConstraints {
		spread = append(spread, s.TopologyKey)
		selectors = append(selectors, s.LabelSelector.MatchLabels)
	}
	if !slices.Equal(spread, []string{"topology.kubernetes.io/zone", "kubernetes.io/hostname"}) {
		t.Errorf("members are spread over %v", spread)
	}
	if slices.Contains(o.kinds, "NetworkPolicy") {
		selectors = append(selectors, o.NetworkPolicy.Spec.PodSelector.MatchLabels)
	}
	if slices.Contains(o.kinds, "PodMonitor") {
		selectors = append(selectors, o.PodMonitor.Spec.Selector.MatchLabels)
	}
	for _, selector := range selectors {
		if len(selector) == 0 {
			t.Error("a selector is empty")
		}
		for key, value := range selector {
			if got := o.Deployment.Spec.Template.Labels[key]; got != value {
				t.Errorf("a selector wants label %s=%s, pods have %q", key, value, got)
			}
		}
	}
	if !*pod.SecurityContext.RunAsNonRoot || !*worker.SecurityContext.ReadOnlyRootFilesystem || *pod.AutomountServiceAccountToken {
		t.Error("the pod has more rights than it needs")
	}
	image := values["image"].(map[string]any)
	want := fmt.Sprint(image["repository"], ":", image["tag"])
	if d := image["digest"]; d != "" {
		want = fmt.Sprint(image["repository"], "@", d)
	}
	if worker.Image != want {
		t.Errorf("the image is %s, want %s", worker.Image, want)
	}
}

// checkCredentials: each flag names a file that a mounted volume has.
func checkCredentials(t *testing.T, values map[string]any, pod core.PodSpec) {
	worker := pod.Containers[0]
	files := map[string]string{} // by the path in the container
	for _, m := range worker.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			t.Fatalf("there is no volume %s", m.Name)
		}
		if p := pod.Volumes[i].Projected; p != nil {
			for _, s := range p.Sources {
				if s.Secret != nil {
					files[path.Join(m.MountPath, s.Secret.Items[0].Path)] = s.Secret.Name + " " + s.Secret.Items[0].Key
				} else {
					files[path.Join(m.MountPath, s.ConfigMap.Items[0].Path)] = s.ConfigMap.Name + " " + s.ConfigMap.Items[0].Key
				}
			}
			if *p.DefaultMode != 0o440 || pod.SecurityContext.FSGroup == nil || !m.ReadOnly {
				t.Errorf("credentials have mode %o and group %v", *p.DefaultMode, pod.SecurityContext.FSGroup)
			}
		}
	}
	credentials := values["credentials"].(map[string]any)
	for name, from := range credentials {
		f := from.(map[string]any)
		source := f["secret"]
		if source == nil {
			source = f["configMap"]
		}
		if got, want := files[flags(worker.Args)["-"+name]], fmt.Sprint(source, " ", f["key"]); got != want {
			t.Errorf("-%s is of %q, want %q", name, got, want)
		}
	}
	if len(files) != len(credentials) {
		t.Errorf("files %v of %d credentials", files, len(credentials))
	}
}

// checkMemory: GOMEMLIMIT is nine tenths of the memory limit, unless the values set another
// GOMEMLIMIT.
func checkMemory(t *testing.T, values map[string]any, worker core.Container) {
	var got, want []string
	for _, e := range worker.Env {
		if e.Name == "GOMEMLIMIT" {
			got = append(got, e.Value)
		}
	}
	if memory, ok := worker.Resources.Limits[core.ResourceMemory]; ok {
		want = []string{fmt.Sprint(memory.Value() * 9 / 10)}
	}
	for _, e := range values["env"].([]any) {
		if e := e.(map[string]any); e["name"] == "GOMEMLIMIT" {
			want = []string{e["value"].(string)}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("GOMEMLIMIT is %v, want %v", got, want)
	}
}

func checkNetwork(t *testing.T, values map[string]any, o *objects) {
	ports := map[string]int32{}
	for _, p := range o.Deployment.Spec.Template.Spec.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	annotated := o.Deployment.Spec.Template.Annotations["prometheus.io/port"]
	monitored := slices.Contains(o.kinds, "PodMonitor")
	if port := ports["metrics"]; port != 0 && (annotated == fmt.Sprint(port)) == monitored || port == 0 && (annotated != "" || monitored) {
		t.Errorf("metrics are at port %d, the annotation names %q, with a monitor: %v", port, annotated, monitored)
	}
	if monitored && *o.PodMonitor.Spec.PodMetricsEndpoints[0].Port != "metrics" {
		t.Error("the monitor asks another port")
	}
	flags := flags(o.Deployment.Spec.Template.Spec.Containers[0].Args)
	if port := ports["direct"]; port != 0 && (flags["-listen"] != fmt.Sprint(":", port) || flags["-advertise"] != "$(POD_IP)") {
		t.Errorf("direct lanes at %d: -listen is %q, -advertise %q", port, flags["-listen"], flags["-advertise"])
	}
	if !slices.Contains(o.kinds, "NetworkPolicy") {
		return
	}
	in, out := map[string]int{}, map[string]int{} // peers by ports
	for _, r := range o.NetworkPolicy.Spec.Ingress {
		in[r.Ports[0].Port.String()] = len(r.From)
	}
	for _, r := range o.NetworkPolicy.Spec.Egress {
		out[r.Ports[0].Port.String()] = len(r.To)
	}
	p := values["networkPolicy"].(map[string]any)
	wantIn, wantOut := map[string]int{}, map[string]int{"53": 0, fmt.Sprint(p["natsPort"]): len(p["nats"].([]any))}
	if ports["metrics"] != 0 {
		wantIn["metrics"] = len(p["metrics"].([]any))
	}
	if port := ports["direct"]; port != 0 {
		wantIn["direct"], wantOut[fmt.Sprint(port)] = 1+len(p["clients"].([]any)), 1
	}
	if len(p["egress"].([]any)) > 0 {
		wantOut["5432"] = 0
	}
	if fmt.Sprint(in, out) != fmt.Sprint(wantIn, wantOut) || len(o.NetworkPolicy.Spec.PolicyTypes) != 2 {
		t.Errorf("the network is open for %v and %v, want %v and %v", in, out, wantIn, wantOut)
	}
}

// TestPoolMetric: the autoscaler's metric, its label and the adapter's rule are what package shardotel
// exports, as Prometheus has it.
func TestPoolMetric(t *testing.T) {
	o := read(t, mustRender(t, "autoscaling: {minReplicas: 3, maxReplicas: 5, pool: {type: Resizer, perNode: 2}}"))
	metrics := o.HorizontalPodAutoscaler.Spec.Metrics
	if len(metrics) != 2 || metrics[1].External == nil {
		t.Fatalf("the autoscaler has the metrics %+v, want processor time and the pool's", metrics)
	}
	source := func(file, pattern string) []string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("../../shardotel", file))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			names = append(names, strings.ReplaceAll(found[1], ".", "_"))
		}
		return names
	}
	m, target := metrics[1].External.Metric, metrics[1].External.Target
	if gauges := source("loads.go", `m\.gauge\("([a-z._]+)", "\{instance\}"`); !slices.Contains(gauges, m.Name) {
		t.Errorf("the metric is %s, and shardotel exports %v", m.Name, gauges)
	}
	labels := source("calls.go", `keyType += attribute\.Key\("([a-z._]+)"\)`)
	if want := map[string]string{strings.Join(labels, ""): "Resizer"}; !maps.Equal(m.Selector.MatchLabels, want) || len(labels) != 1 {
		t.Errorf("the metric is selected by %v, want %v", m.Selector.MatchLabels, want)
	}
	if target.Type != autoscaling.AverageValueMetricType || target.AverageValue.Value() != 2 {
		t.Errorf("the target is %+v, want 2 instances at each member", target)
	}
	var adapter struct {
		Rules struct {
			External []struct {
				SeriesQuery, MetricsQuery string
				Name                      struct{ As string }
			}
		}
	}
	text, err := os.ReadFile("../prometheus/adapter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &adapter); err != nil {
		t.Fatal(err)
	}
	if r := adapter.Rules.External; len(r) != 1 || r[0].SeriesQuery != m.Name || r[0].Name.As != m.Name || !strings.Contains(r[0].MetricsQuery, "<<.Series>>{<<.LabelMatchers>>}") {
		t.Errorf("the adapter's rules are %+v, want one of %s", r, m.Name)
	}
}

// TestValues: the chart refuses values that make no sense.
func TestValues(t *testing.T) {
	for values, want := range map[string]string{
		"replica: 3":                                                        "replica",
		"replicas: 0":                                                       "replicas",
		"healthPort: 70000":                                                 "healthPort",
		`image: {repository: "", tag: "1"}`:                                 "repository",
		"image: {digest: latest}":                                           "digest",
		"{replicas: 3, minMembers: 4}":                                      "wait for ever",
		"autoscaling: {minReplicas: 3, maxReplicas: 12}":                    "minMembers is 7",
		"autoscaling: {minReplicas: 3, maxReplicas: 2}":                     "above maxReplicas",
		"credentials: {password: {secret: a, key: b}}":                      "password",
		"credentials: {cert: {secret: a, key: b}}":                          "key",
		"credentials: {ca: {secret: a, configMap: b, key: c}}":              "ca",
		"podMonitor: {enabled: true}":                                       "metricsPort",
		"autoscaling: {minReplicas: 3, maxReplicas: 5, pool: {perNode: 1}}": "type",
		"resources: {limits: {memory: 1e9}, requests: null}":                "",
		"resources: {limits: {memory: 512MB}, requests: null}":              "512MB",
		"networkPolicy: {enabled: true, nats: [10.0.0.0/8]}":                "nats",
	} {
		_, err := render(load(t), values)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", values, err, want)
		}
	}
}
