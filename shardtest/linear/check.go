package linear

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shardgen/shardgen/shardtest"
)

// Patience bounds a check, whose time may be exponential in the number of concurrent calls.
const Patience = time.Minute

// Check fails the test if the calls of the history could not have run one after another as the
// model has it, each between its begin and its end, or if a minute is too short to find out. It then
// writes a page that shows the calls into [testing.T.ArtifactDir].
//
// It runs in real time, so a test in virtual time calls it after [shardtest.Run].
func Check[I, O, S any](t testing.TB, m Model[I, O, S], history []shardtest.Operation[I, O]) {
	t.Helper()
	model, calls := m.porcupine(), operations(history)
	result, info := porcupine.CheckOperationsVerbose(model, calls, Patience)
	if result == porcupine.Ok {
		return
	}
	page := filepath.Join(t.ArtifactDir(), "history.html")
	if err := porcupine.VisualizePath(model, info, page); err != nil {
		t.Log(err)
	}
	if result == porcupine.Unknown {
		t.Fatalf("%d calls could not be checked within %v (record fewer at once, or name their entities by Model.Entity); %s shows them", len(calls), Patience, page)
	}
	t.Fatalf("%d calls could not have run one after another; %s shows them", len(calls), page)
}
