package durable

import (
	"fmt"
	"testing"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// TestHeadNeedsTheEndOfTheLog: a checkpoint leaves out an entity, because the log has later commits
// of it. Then the store loses the end of the log, but keeps the head. The entity's record is older
// than the head's Since. If the log still has a later commit, a home opens the shard. Otherwise no
// home does, and a snapshot gives the reason.
func TestHeadNeedsTheEndOfTheLog(t *testing.T) {
	opened, refused := 0, 0
	for lost := 0; ; lost++ {
		d := blindCashier(t)
		d.server.sparse = true
		a := d.limited(0, 1, few).open()
		a.commit("hot", "0")
		a.save("hot")
		versions := map[store.Position]int{}
		for i, first := 1, d.server.head(0).Since; d.server.head(0).Since < first+14; i++ {
			a.commit("hot", fmt.Sprint(i))
			versions[d.last(0)] = i
			a.commit(fmt.Sprint("new", i), "1") // it has no record, so the head does not need the log for it
			versions[d.last(0)] = i
		}
		head, log := d.server.head(0), d.server.shards[0].log
		if lost == len(log) {
			break
		}
		last := log[len(log)-1-lost].Position
		d.lose(0, last)
		log = d.server.shards[0].log
		lacks, fails := durable.CheckEnd(head, log), versions[last] <= versions[head.Since]
		if (lacks != nil) != fails {
			t.Errorf("a snapshot of a log with version %d, behind version %d: %v", versions[last], versions[head.Since], lacks)
		}
		b := d.limited(0, 2, few)
		if !fails {
			opened++
			b.open().want("hot", fmt.Sprint(versions[last]), uint64(versions[last])+1)
			continue
		}
		refused++
		b.refused("which the head needs")
		value, err := durable.Unanchored(head.Value) // a repair that accepts the loss does the same
		if err != nil || durable.CheckEnd(store.Head{Revision: head.Revision, Since: head.Since, Value: value}, log) != nil {
			t.Errorf("a repaired head still needs the end of the log, %v", err)
		}
	}
	if opened == 0 || refused == 0 {
		t.Errorf("opened %d times, and refused %d times: want both", opened, refused)
	}
}
