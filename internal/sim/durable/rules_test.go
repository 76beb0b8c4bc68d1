package durable

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// rules are those that the first five scenarios of the design were found with: a change of the source
// that leaves the rule out, and the scenario that must fail then.
var rules = []struct{ rule, file, with, without, scenario string }{
	{
		"who claims keeps the since of the head that it replaces", "head.go",
		"h.replace(c, h.stored.Since, h.value.GetGeneration(), h.value.GetParts()), h.stored.Revision",
		"h.replace(c, w.want.stored.Since, h.value.GetGeneration(), h.value.GetParts()), h.stored.Revision",
		"TestTrimDuringTakeOver",
	},
	{
		"a claim of a lower epoch is void", "claim.go",
		"if c.known && a.GetEpoch() <= c.epoch && (!same || a.GetClaim() <= c.claim) {",
		"if c.known && same && a.GetClaim() <= c.claim {",
		"TestCancelledMoveWithALateClaim",
	},
	{
		"what a log has sent is never forgotten", "table.go",
		"if !s.silent(k.heard, process, nested) || k.runs() {",
		"if k.heard.After(process) || k.runs() {",
		"TestTellAgainAfterAWeek",
	},
	{
		"a known id with another hash is an error", "table.go",
		"case a.hash != c.Hash:",
		"case false:",
		"TestNestedCallOfATurnThatBranches",
	},
}

// TestScenariosNeedTheirRules: each scenario fails on a version without its rule. The fifth, of a lost
// term, has a switch of its own: TestShardOpensAfterALostTerm.
func TestScenariosNeedTheirRules(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the package once for each rule")
	}
	for _, r := range rules {
		t.Run(r.rule, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join("../../durable", r.file))
			if err != nil {
				t.Fatal(err)
			}
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(source), r.with) != 1 {
				t.Fatalf("%s has the rule's line %d times, want 1: %s", r.file, strings.Count(string(source), r.with), r.with)
			}
			dir := t.TempDir()
			changed, overlay := filepath.Join(dir, r.file), filepath.Join(dir, "overlay.json")
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(changed, []byte(strings.Replace(string(source), r.with, r.without, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(overlay, replace, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("go", "test", "-overlay", overlay, "-run", "^"+r.scenario+"$", "-timeout", "2m", ".").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+r.scenario) {
				t.Errorf("%s without the rule: %v\n%s", r.scenario, err, out)
			}
		})
	}
}
