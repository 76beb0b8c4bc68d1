package durablehost

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/shardgen/shardgen/internal/core/durable"
)

func TestIDsTravel(t *testing.T) {
	for _, id := range []ID{
		{},
		{Number: 1, Floor: 1},
		{Source: 1 << 63, Number: 9, Floor: 4, Path: "\x00\xffpath"},
		{Number: 1, Path: durable.Path(strings.Repeat("p", 3*idBytes))},
		{Key: "pay\xff"},
		{Number: 900, Floor: 4, Past: 800, Stuck: durable.NumbersOf([]uint64{4, 5, 799})},
		{Number: 9, Floor: 4, Log: durable.Target{Log: "Account", Shard: 63}, To: durable.Target{Log: "Bank", Shard: 1 << 31}},
	} {
		got, err := ReadID(id.Append(nil))
		if err != nil || got != id {
			t.Errorf("%+v became %+v, %v", id, got, err)
		}
	}
	for _, bad := range [][]byte{
		{0xff},
		{8},
		(ID{Number: 1, Floor: 2}).Append(nil),
		(ID{Number: 1, Stuck: "\x01\x00"}).Append(nil), (ID{Number: 1, Stuck: "\x80"}).Append(nil),
		(ID{Number: 1, Stuck: durable.Numbers(strings.Repeat("\x01", durable.MaxStuck+1))}).Append(nil),
		(ID{Number: 1, Log: durable.Target{Log: "a\xff"}}).Append(nil), (ID{Number: 1, Log: durable.Target{Log: "a"}, To: durable.Target{Log: "\xff"}}).Append(nil),
	} {
		if _, err := ReadID(bad); err == nil {
			t.Errorf("%x was read", bad)
		}
	}
}

// commandOf returns the command of an ID.
func commandOf(id ID, sender uint64, entity, method string, args []byte) (c durable.Command) {
	id.Command(&c, sender, entity, method, args)
	return c
}

// begun returns the ID of a new command of a source.
func begun(s *Source) (id ID) {
	s.Begin(&id)
	return id
}

// TestCommandsOfKeysDiffer: a key names one command of one entity, whichever process sends it.
func TestCommandsOfKeysDiffer(t *testing.T) {
	one := commandOf(ID{Key: "k"}, 7, "a\xff", "Add", []byte{1})
	for _, other := range []durable.Command{
		commandOf(ID{Key: "k"}, 7, "b", "Add", []byte{1}), commandOf(ID{Key: "l"}, 7, "a\xff", "Add", []byte{1}), commandOf(ID{Key: "\xffk"}, 7, "a", "Add", []byte{1}),
	} {
		if other.Source == one.Source {
			t.Errorf("%+v and %+v have one source", one, other)
		}
	}
	if again := commandOf(ID{Key: "k"}, 8, "a\xff", "Add", []byte{1}); again != one {
		t.Errorf("sent by another process, it is %+v, want %+v", again, one)
	}
	if strings.ToValidUTF8(one.Source.Log, "") != one.Source.Log {
		t.Errorf("%q", one.Source.Log)
	}
}

// TestHashesOfCommandsStay: later programs must compute the same hashes, because logs store them.
func TestHashesOfCommandsStay(t *testing.T) {
	for _, c := range []struct {
		entity, method string
		args           []byte
	}{
		{"", "", nil},
		{"bob", "Add", []byte{8, 1}},
		{strings.Repeat("e", 200), "Add", []byte(strings.Repeat("a", 5000))},
		{"bob", "Add", make([]byte, 120)},
		{"bob", "Add", make([]byte, 121)}, // the most that is hashed in one piece, and more
	} {
		whole := binary.AppendUvarint(nil, uint64(len(c.entity)))
		whole = append(whole, c.entity...)
		whole = binary.AppendUvarint(whole, uint64(len(c.method)))
		whole = append(append(whole, c.method...), c.args...)
		if got, want := hashOf(c.entity, c.method, c.args), xxhash.Sum64(whole); got != want {
			t.Errorf("%.9q %q has hash %x, want %x", c.entity, c.method, got, want)
		}
	}
}

// TestNestedIDsAreThoseOfTheRunBefore: when a turn runs again, its calls have the same IDs as in
// the first run.
func TestNestedIDsAreThoseOfTheRunBefore(t *testing.T) {
	for _, id := range []ID{{Number: 3, Floor: 2}, {Key: "k"}, {Number: 3, Floor: 2, Log: durable.Target{Log: "Bank", Shard: 2}}} {
		c := commandOf(id, 7, "a", "Transfer", nil)
		run := func() (ids []ID) {
			var calls durable.Calls
			for _, to := range []string{"b", "c", "b"} {
				ids = append(ids, Nested(c, durable.Target{Log: "Account", Shard: 1}, &calls, "Account", to, "Add"))
			}
			return ids
		}
		first, second := run(), run()
		if !reflect.DeepEqual(first, second) || first[0] == first[2] || first[0] == first[1] {
			t.Errorf("%+v, then %+v", first, second)
		}
	}
}

// TestNestedIDsOfATellNameItsWay: the ids of calls made by a tell's turn name the tell's receiver,
// because a log numbers tells by receiver.
func TestNestedIDsOfATellNameItsWay(t *testing.T) {
	from, to := durable.Target{Log: "Bank", Shard: 2}, durable.Target{Log: "Account", Shard: 1}
	tell := commandOf(ID{Number: 3, Floor: 2, Log: from}, 7, "a", "Add", nil)
	if want := (durable.Source{Log: "Bank", Shard: 2}); tell.Source != want {
		t.Errorf("the tell has source %+v, want %+v", tell.Source, want)
	}
	first := Nested(tell, to, new(durable.Calls), "Account", "b", "Add")
	below := Nested(commandOf(first, 7, "b", "Add", nil), durable.Target{Log: "Account", Shard: 9}, new(durable.Calls), "Account", "c", "Add")
	for _, id := range []ID{first, below} {
		if id.Log != from || id.To != to || id.Number != 3 || id.Floor != 2 || id.Path == "" {
			t.Errorf("%+v: want the log and its receiver", id)
		}
	}
	if first.Path == below.Path {
		t.Error("two nested calls have one path")
	}
}

func TestAnswers(t *testing.T) {
	for _, r := range []Answer{{}, {Code: 1, Text: "no", Payload: []byte{1, 2}}, {Payload: []byte("x")}} {
		if b := r.Append(nil); len(b) != r.size() {
			t.Errorf("%+v has %d bytes, want %d", r, len(b), r.size())
		}
		got, err := ReadAnswer(r.Append(nil))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v became %+v, %v", r, got, err)
		}
	}
	// Answers that earlier programs wrote must remain readable.
	got, err := ReadAnswer([]byte("\x08\x01\x12\x02no\x1a\x02\x01\x02"))
	if err != nil || got.Code != 1 || got.Text != "no" || string(got.Payload) != "\x01\x02" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"\x20\x01", "\x08", "\x12\x05no"} {
		if _, err := ReadAnswer([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestAnswerTakesRoomForWhatItHas: encoding an answer allocates no spare memory, because a log
// keeps the answers to all commands that may be repeated. Most answers have no error.
func TestAnswerTakesRoomForWhatItHas(t *testing.T) {
	for _, tt := range []struct {
		answer Answer
		want   int
	}{
		{Answer{}, 0},
		{Answer{Payload: []byte("x")}, 3},
		{Answer{Code: 1}, 2},
		{Answer{Code: 1, Text: "no"}, 6},
	} {
		if b := tt.answer.Append(nil); len(b) != tt.want {
			t.Errorf("%+v takes %d bytes, want %d", tt.answer, len(b), tt.want)
		}
	}
}

func TestSourceKnowsItsFloor(t *testing.T) {
	var s Source
	var numbers []uint64
	for i := range 100 {
		id := begun(&s)
		if id.Number != uint64(i)+1 || id.Floor != 1 {
			t.Fatalf("%+v", id)
		}
		numbers = append(numbers, id.Number)
	}
	for i := len(numbers) - 1; i > 0; i-- {
		s.End(numbers[i])
	}
	var id ID
	if s.Update(&id); id.Floor != 1 {
		t.Errorf("the floor is %d, want 1", id.Floor)
	}
	s.End(1)
	if s.Update(&id); id.Floor != 101 {
		t.Errorf("the floor is %d, want 101", id.Floor)
	}
	if id := begun(&s); id != (ID{Number: 101, Floor: 101}) {
		t.Errorf("%+v", id)
	}
}

// TestSourceSetsStuckCommandsAside: whichever commands do not end, an ID lists no unfinished
// command as finished, and it lists all finished ones but a few.
func TestSourceSetsStuckCommandsAside(t *testing.T) {
	for stuck := range durable.MaxStuck + 2 {
		random := rand.New(rand.NewPCG(1, uint64(stuck)))
		var s Source
		var running, open []uint64 // open are never ended
		ended := map[uint64]bool{}
		for n := uint64(1); n <= 4*maxLag; n++ {
			id := begun(&s)
			if id.Number != n {
				t.Fatalf("number %d, want %d", id.Number, n)
			}
			if len(open) < stuck && n%17 == 3 {
				open = append(open, n)
			} else {
				running = append(running, n)
			}
			if len(running) > 20 {
				i := random.IntN(len(running))
				s.End(running[i])
				s.End(running[i]) // the second changes nothing
				ended[running[i]] = true
				running = slices.Delete(running, i, i+1)
			}
			if n%997 != 0 {
				continue
			}
			s.Update(&id)
			left, err := id.Stuck.Slice()
			if err != nil || len(left) > 0 && left[0] != id.Floor {
				t.Fatalf("%+v: stuck %d, %v", id, left, err)
			}
			for _, n := range slices.Concat(open, running) {
				if n < id.Floor || n < id.Past && !slices.Contains(left, n) {
					t.Fatalf("number %d is not finished, and said to be: %+v, stuck %d", n, id, left)
				}
			}
			kept := 0
			for n := range ended {
				if n >= max(id.Floor, id.Past) {
					kept++
				}
			}
			if stuck <= durable.MaxStuck && kept > maxLag {
				t.Fatalf("%d finished commands are kept beside %d that are stuck", kept, stuck)
			}
		}
		for _, n := range slices.Concat(open, running) {
			s.End(n)
		}
		if id := begun(&s); id != (ID{Number: 4*maxLag + 1, Floor: 4*maxLag + 1}) {
			t.Errorf("after all have ended: %+v", id)
		}
	}
}
