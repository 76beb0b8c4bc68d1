package versions

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/gen/versions/today"
	"github.com/shardgen/shardgen/internal/gen/versions/yesterday"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestReminderAndIndexOverARollout upgrades a cluster to a program whose lots have an index and a
// reminder, goes back while the reminders are due, and upgrades again. The older program keeps what
// it does not know: reminders wait for the newer program, which finds lots by what the older one
// wrote.
func TestReminderAndIndexOverARollout(t *testing.T) { synctest.Test(t, reminderAndIndexOverARollout) }

func reminderAndIndexOverARollout(t *testing.T) {
	const path, lots = "github.com/shardgen/shardgen/internal/gen/versions/today", 20
	start := members(t)
	older := func(n *shard.Node) error { return yesterday.HostLotAs(n, path) }
	newer := func(n *shard.Node) error { return today.HostLot(n, func() *today.Lot { return &today.Lot{} }) }
	found := func(n *shard.Node, room int32) (ids []string) {
		for id, err := range today.NewLotClient(n).FindByRoom(within(t), room) {
			ok(t, "find", err)
			ids = append(ids, id)
		}
		return ids
	}

	old := start("old", older)
	for i := range lots {
		ok(t, "put", yesterday.NewLotClientAs(old, path).Ref(fmt.Sprint("lot", i)).Put(within(t), int32(i%2)))
	}
	young := start("young", newer)
	ok(t, "shutdown", old.Shutdown(within(t)))
	equal(t, "lots in room 1 after the upgrade", len(found(young, 1)), lots/2)
	for i := range lots {
		ok(t, "offer", today.NewLotClient(young).Ref(fmt.Sprint("lot", i)).Offer(within(t), time.Hour))
	}

	old = start("old2", older)
	ok(t, "shutdown", young.Shutdown(within(t)))
	client := yesterday.NewLotClientAs(old, path)
	for i := range lots {
		room, err := client.Ref(fmt.Sprint("lot", i)).Get(within(t))
		ok(t, "get", err)
		equal(t, "room", room, int32(i%2))
	}
	time.Sleep(2 * time.Hour) // the reminders are due
	for i := range lots {
		ok(t, "put", client.Ref(fmt.Sprint("lot", i)).Put(within(t), 7))
	}

	young = start("young2", newer)
	ok(t, "shutdown", old.Shutdown(within(t)))
	time.Sleep(10 * time.Minute)
	for i := range lots {
		sold, err := today.NewLotClient(young).Ref(fmt.Sprint("lot", i)).IsSold(within(t))
		ok(t, "sold", err)
		equal(t, "sold", sold, true)
	}
	equal(t, "lots in room 7", len(found(young, 7)), lots)
}
