package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

const (
	rules = "../../deploy/prometheus/alerts.yaml"
	board = "../../deploy/grafana/shardgen.json"
	page  = "../../docs/guide/alerts.md"
)

// TestAlertsHaveSections checks that docs/guide/alerts.md has a section on each alert rule.
func TestAlertsHaveSections(t *testing.T) {
	yaml, text := read(t, rules), read(t, page)
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(yaml, -1)
	if len(alerts) == 0 {
		t.Fatal("there are no alerts")
	}
	for _, a := range alerts {
		if !strings.Contains(text, "\n## "+a[1]+"\n") {
			t.Errorf("%s has no section %s", page, a[1])
		}
		if !strings.Contains(yaml, "page: docs/guide/alerts.md#"+strings.ToLower(a[1])+"\n") {
			t.Errorf("%s does not name its section", a[1])
		}
	}
}

// TestBoard checks that the Grafana dashboard is valid JSON, and that its panels have distinct
// numbers and do not overlap.
func TestBoard(t *testing.T) {
	var b struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, board)), &b); err != nil {
		t.Fatal(err)
	}
	if len(b.Panels) == 0 {
		t.Fatal("there are no panels")
	}
	for i, p := range b.Panels {
		if p.Title == "" || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d (%s) has no title or target, or is too wide", p.ID, p.Title)
		}
		for _, o := range b.Panels[:i] {
			a, c := p.GridPos, o.GridPos
			if p.ID == o.ID || a.X < c.X+c.W && c.X < a.X+a.W && a.Y < c.Y+c.H && c.Y < a.Y+a.H {
				t.Errorf("panels %q and %q have one number or place", p.Title, o.Title)
			}
		}
	}
}

// TestAlerts runs the tests of the alert rules, if Prometheus is installed.
func TestAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool, which comes with Prometheus, is not installed")
	}
	c := exec.CommandContext(t.Context(), promtool, "test", "rules", "alerts_test.yaml")
	c.Dir = "../../deploy/prometheus"
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
