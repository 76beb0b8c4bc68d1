package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

const (
	rules = "../../deploy/prometheus/alerts.yaml"
	page  = "../../docs/guide/alerts.md"
)

// TestAlertsHaveSections: the page says of each alert what it means.
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

// TestAlerts runs the tests of the rules, where Prometheus is installed.
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
