package feed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

var deadBody = []byte("dead")

func tellTo(entity, body string) durable.Tell {
	return durable.Tell{Target: durable.Target{Log: "Account"}, Entity: entity, Body: []byte(body)}
}

func checked(t *testing.T, w *Window) Effects {
	t.Helper()
	out := w.Take()
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	return out
}

func numbersOf(tells []durable.Tell) (all []uint64) {
	for _, tell := range tells {
		all = append(all, tell.Number)
	}
	return all
}

// TestOrder: the next tell to an entity is sent when the one before is finished. Tells to other
// entities do not wait for it.
func TestOrder(t *testing.T) {
	w := New(5, deadBody, Limits{})
	w.Add(5, []durable.Tell{tellTo("a", "1"), tellTo("b", "1"), tellTo("a", "2")})
	w.Add(6, []durable.Tell{tellTo("c", "1"), tellTo("b", "2")})
	if got, want := numbersOf(checked(t, w).Send), []uint64{Number(5, 0), Number(5, 1), Number(6, 0)}; !slices.Equal(got, want) {
		t.Fatalf("got %v sent, want %v", got, want)
	}
	w.Ended(start, Number(5, 0), Committed, "")
	w.Ended(start, Number(5, 1), Unanswered, "")
	if got, want := numbersOf(checked(t, w).Send), []uint64{Number(5, 2)}; !slices.Equal(got, want) {
		t.Fatalf("got %v sent, want %v", got, want)
	}
	if got := w.Position(); got != 5 {
		t.Fatalf("got position %d, want 5", got)
	}
	w.Ended(start, Number(5, 2), Committed, "")
	w.Tick(start.Add(time.Second))
	w.Ended(start, Number(6, 0), Committed, "")
	sent := checked(t, w).Send
	if got, want := numbersOf(sent), []uint64{Number(5, 1)}; !slices.Equal(got, want) {
		t.Fatalf("got %v sent, want %v", got, want)
	}
	if got, want := sent[0].Floor, Number(5, 1); got != want {
		t.Fatalf("got floor %d, want %d", got, want)
	}
	w.Ended(start, Number(5, 1), Finished, "")
	checked(t, w)
	w.Ended(start, Number(6, 1), Committed, "")
	checked(t, w)
	if got := w.Position(); got != 7 || !w.Idle() {
		t.Fatalf("got position %d, idle %t, want 7, true", got, w.Idle())
	}
}

// TestFailing: a tell that was applied after a failure fails no more, also while an earlier one is
// unfinished.
func TestFailing(t *testing.T) {
	w := New(1, deadBody, Limits{})
	w.Add(1, []durable.Tell{tellTo("a", "1"), tellTo("b", "1")})
	checked(t, w)
	w.Ended(start, Number(1, 1), Failed, "no")
	if got := w.Failing(); len(got) != 1 || got[0].Number != Number(1, 1) {
		t.Fatalf("got %v failing, want tell %d", got, Number(1, 1))
	}
	w.Tick(start.Add(time.Hour))
	checked(t, w)
	w.Ended(start.Add(time.Hour), Number(1, 1), Committed, "")
	if got := w.Failing(); len(got) != 0 {
		t.Fatalf("got %v failing, want none", got)
	}
}

// TestDead: a tell is given up after 10 failures over 5 minutes. Its number is then committed as
// dead, and the tell is finished when its letter is stored. Attempts without an answer do not
// count.
func TestDead(t *testing.T) {
	w := New(1, deadBody, Limits{})
	w.Add(1, []durable.Tell{tellTo("a", "1")})
	w.Add(2, []durable.Tell{tellTo("a", "2")})
	number, now, failed := Number(1, 0), start, 0
	for ; ; now = now.Add(time.Second) {
		w.Tick(now)
		sent := checked(t, w).Send
		if len(sent) == 0 {
			continue
		}
		if string(sent[0].Body) == "dead" {
			break
		}
		if failed%2 == 0 {
			w.Ended(now, number, Unanswered, "away")
			checked(t, w)
			w.Tick(now.Add(time.Minute))
			checked(t, w)
		}
		failed++
		w.Ended(now, number, Failed, "broken")
	}
	if d := now.Sub(start); failed < 10 || d < 5*time.Minute || d > 7*time.Minute {
		t.Fatalf("given up after %d failures over %v, want at least 10 over at least 5 minutes", failed, d)
	}
	w.Ended(now, number, Committed, "")
	out := checked(t, w)
	if len(out.Dead) != 1 || out.Dead[0].Why != "broken" || string(out.Dead[0].Body) != "1" {
		t.Fatalf("got %+v, want a letter of the first tell", out.Dead)
	}
	if w.Position() != 1 || len(out.Send) != 0 {
		t.Fatal("the tell is finished before its letter is stored")
	}
	w.Buried(number)
	if got, want := numbersOf(checked(t, w).Send), []uint64{Number(2, 0)}; !slices.Equal(got, want) {
		t.Fatalf("got %v sent, want %v", got, want)
	}
}

// TestDeadOrApplied: a tell that was applied is not dead, whatever results its reader has got.
func TestDeadOrApplied(t *testing.T) {
	for name, c := range map[string]struct {
		first, second Result
		dead, known   int
	}{
		"another reader has committed it as dead": {Mismatch, Committed, 1, 0},
		"it was applied with other arguments":     {Mismatch, Mismatch, 0, 1},
		"another reader has finished it":          {Mismatch, Finished, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := New(1, deadBody, Limits{})
			w.Add(1, []durable.Tell{tellTo("a", "1")})
			checked(t, w)
			w.Ended(start, Number(1, 0), c.first, "other arguments")
			if sent := checked(t, w).Send; len(sent) != 1 || string(sent[0].Body) != "dead" {
				t.Fatalf("got %+v sent, want the number as dead", sent)
			}
			w.Ended(start, Number(1, 0), c.second, "")
			out := checked(t, w)
			if c.dead == 0 && !w.Idle() {
				t.Error("the tell is not finished")
			}
			if len(out.Dead) != c.dead || len(out.Known) != c.known {
				t.Fatalf("got %d letters and %d known, want %d and %d", len(out.Dead), len(out.Known), c.dead, c.known)
			}
		})
	}
}

// TestRoom: a window has room for its limit. A few tells that do not end are set aside, and the
// other tells go on. More such tells hold up the window.
func TestRoom(t *testing.T) {
	w := New(1, deadBody, Limits{Unfinished: 100, Lag: 50})
	position := uint64(1)
	fill := func(stuck int) (added int) {
		for ; added < 1000 && w.Room() > 0; added++ {
			entity := fmt.Sprint(position)
			if added < stuck {
				entity = fmt.Sprint("stuck", position)
			}
			w.Add(position, []durable.Tell{tellTo(entity, "")})
			for _, tell := range checked(t, w).Send {
				if tell.Entity[0] != 's' {
					w.Ended(start, tell.Number, Committed, "")
				}
			}
			position++
			checked(t, w)
		}
		return added
	}
	if got := fill(durable.MaxStuck); got != 1000 {
		t.Fatalf("read %d messages beside %d stuck ones, want 1000", got, durable.MaxStuck)
	}
	past, stuck := w.Aside()
	if all, err := stuck.Slice(); err != nil || len(all) != durable.MaxStuck || all[0] != Number(1, 0) || past != Number(position, 0) {
		t.Fatalf("got %v aside below %d, %v", all, past, err)
	}
	if got := fill(1); got < 50 || got > 60 {
		t.Fatalf("read %d messages after one more stuck one, want about 50", got)
	}
	w.Ended(start, Number(1, 0), Committed, "")
	checked(t, w)
	if got := fill(0); got != 1000 {
		t.Fatalf("read %d messages after a stuck one has ended, want 1000", got)
	}
	b := New(1, deadBody, Limits{Bytes: 10})
	b.Add(1, []durable.Tell{tellTo("a", "12345"), tellTo("b", "12345")})
	if got := b.Room(); got != 0 {
		t.Fatalf("got room for %d beside 10 bytes, want 0", got)
	}
	checked(t, b)
	b.Ended(start, Number(1, 0), Committed, "")
	if checked(t, b); b.Room() == 0 {
		t.Fatal("got no room beside 5 bytes")
	}
	v := New(1, deadBody, Limits{Unfinished: 100})
	for p := range uint64(100) {
		v.Add(p+1, []durable.Tell{tellTo(fmt.Sprint(p), "")})
	}
	if v.Room() != 0 {
		t.Fatalf("got room for %d, want 0", v.Room())
	}
}

// TestReaders runs readers that crash, begin at old positions and read at the same time. Their
// receivers fail, lose answers and forget nothing. Each message must be dead, or applied once and
// in order per entity.
func TestReaders(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runReaders(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

// A receiver is a shard's table of commands, as package durable keeps it.
type receiver struct {
	floor   uint64
	known   map[uint64]string // body by number
	applied map[string][]uint64
}

func (r *receiver) take(tell durable.Tell, poison map[uint64]bool) Result {
	switch body, known := r.known[tell.Number]; {
	case tell.Number < r.floor:
		return Finished
	case known && body != string(tell.Body):
		return Mismatch
	case known:
		return Committed
	}
	r.floor = max(r.floor, tell.Floor)
	if string(tell.Body) != "dead" {
		if poison[tell.Number] {
			return Failed
		}
		r.applied[tell.Entity] = append(r.applied[tell.Entity], tell.Number)
	}
	r.known[tell.Number] = string(tell.Body)
	return Committed
}

func runReaders(t *testing.T, random *rand.Rand) {
	const messages, entities = 60, 4
	to := func(position uint64) (tells []durable.Tell) {
		for i := range position % 3 {
			tells = append(tells, tellTo(fmt.Sprint("e", (position+i*position)%entities), fmt.Sprint(position, i)))
		}
		return tells
	}
	r := &receiver{known: map[uint64]string{}, applied: map[string][]uint64{}}
	poison, dead := map[uint64]bool{}, map[uint64]bool{}
	for range 3 {
		poison[Number(random.Uint64N(messages)+1, int(random.Uint64N(2)))] = true
	}
	type reader struct {
		w     *Window
		next  uint64
		under []durable.Tell
	}
	stored := uint64(1)
	begin := func() *reader {
		return &reader{New(stored, deadBody, Limits{Unfinished: 8, Lag: 8, Tries: 2, TryFor: time.Second}), stored, nil}
	}
	readers := []*reader{begin(), begin()}
	now := start
	for step := 0; ; step++ {
		if step > 100_000 {
			t.Fatal("the messages are not finished after 100,000 steps")
		}
		now = now.Add(100 * time.Millisecond)
		i := random.IntN(len(readers))
		rd := readers[i]
		switch random.IntN(8) {
		case 0:
			if rd.next <= messages && rd.w.Room() > 0 {
				rd.w.Add(rd.next, to(rd.next))
				rd.next++
			}
		case 1:
			if random.IntN(20) == 0 {
				readers[i] = begin() // what it has sent is not under way any more, or arrives late
				for _, late := range rd.under {
					if random.IntN(2) == 0 {
						r.take(late, poison)
					}
				}
				continue
			}
		case 2:
			if rd.w.Position() > stored && random.IntN(4) == 0 {
				stored = rd.w.Position()
			}
		case 3:
			rd.w.Tick(now)
		default:
			if n := len(rd.under); n > 0 {
				j := random.IntN(n)
				tell := rd.under[j]
				rd.under = slices.Delete(rd.under, j, j+1)
				switch random.IntN(10) {
				case 0:
					rd.w.Ended(now, tell.Number, Unanswered, "lost")
				case 1:
					r.take(tell, poison)
					rd.w.Ended(now, tell.Number, Unanswered, "answer lost")
				default:
					rd.w.Ended(now, tell.Number, r.take(tell, poison), "")
				}
			}
		}
		out := rd.w.Take()
		rd.under = append(rd.under, out.Send...)
		for _, d := range out.Dead {
			dead[d.Number] = true
			rd.w.Buried(d.Number)
			out := rd.w.Take()
			rd.under = append(rd.under, out.Send...)
		}
		if err := rd.w.Check(); err != nil {
			t.Fatal(err)
		}
		if stored > messages {
			break
		}
	}
	var want, got [entities][]uint64
	for p := range uint64(messages) {
		for i, tell := range to(p + 1) {
			if n := Number(p+1, i); !dead[n] {
				want[tell.Entity[1]-'0'] = append(want[tell.Entity[1]-'0'], n)
			} else if !poison[n] {
				t.Errorf("tell %d is dead, but not poison", n)
			}
		}
	}
	for i := range got {
		got[i] = r.applied[fmt.Sprint("e", i)]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v applied, want %v; dead: %v", got, want, dead)
	}
}
