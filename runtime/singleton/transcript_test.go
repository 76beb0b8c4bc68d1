package singleton

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/transport"
)

var update = flag.Bool("update", false, "write the transcripts in testdata anew")

// TestTranscripts runs testdata/*.txt. A file is blocks of commands, a line with
// ----, and what the manager did; # starts a comment. The commands:
//
//	manager NODE [role=R] [margin=1s]
//	view NODE:STATUS:AGE[:ROLE] ...
//	from NODE MESSAGE
//	started | stopped
//	tick DURATION
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(b))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(b) {
				t.Errorf("%s: got:\n%s\nwant:\n%s", file, got, b)
			}
		})
	}
}

func replay(t *testing.T, text string) string {
	s := &script{t: t, now: time.Unix(1_000_000, 0)}
	var out strings.Builder
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		commands, _, _ := strings.Cut(block+"\n", "----\n")
		out.WriteString(commands + "----\n")
		for _, line := range strings.Split(strings.TrimSpace(commands), "\n") {
			if !strings.HasPrefix(line, "#") {
				out.WriteString(s.run(strings.Fields(line)))
			}
		}
		out.WriteString("\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

type script struct {
	t   *testing.T
	now time.Time
	m   *Manager
}

func (s *script) run(words []string) string {
	if words[0] == "manager" {
		s.m = s.manager(words[1:])
		return ""
	}
	out := s.m.Step(s.now, s.input(words[0], words[1:]))
	if err := s.m.Check(); err != nil {
		s.t.Fatalf("after %v: %v", words, err)
	}
	var b strings.Builder
	for _, e := range out.Events {
		fmt.Fprintf(&b, "* %v", e.State)
		if !e.Peer.IsZero() {
			fmt.Fprintf(&b, " (%s)", e.Peer.Name)
		}
		fmt.Fprintf(&b, ": %s\n", e.What)
	}
	if out.StartInstance {
		b.WriteString("start the instance\n")
	}
	if out.StopInstance {
		b.WriteString("stop the instance\n")
	}
	for _, e := range out.Send {
		fmt.Fprintf(&b, "→ %s %v\n", e.To.Name, e.Message.Type)
	}
	if !out.WakeAt.IsZero() {
		fmt.Fprintf(&b, "wake in %v\n", out.WakeAt.Sub(s.now))
	}
	return b.String()
}

func (s *script) manager(args []string) *Manager {
	c := Config{Name: "it", Self: node(args[0])}
	for _, a := range args[1:] {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "role":
			c.Role = v
		case "margin":
			c.RemovalMargin = s.duration(v)
		default:
			s.t.Fatalf("unknown option %q", a)
		}
	}
	m, err := New(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

func (s *script) input(command string, args []string) Input {
	switch command {
	case "view":
		var v View
		for _, a := range args {
			fields := strings.Split(a, ":")
			age, err := strconv.ParseUint(fields[2], 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			m := Member{Address: node(fields[0]), UpNumber: age, Roles: fields[3:]}
			for st := Joining; st <= Down; st++ {
				if st.String() == fields[1] {
					m.Status = st
				}
			}
			v.Members = append(v.Members, m)
		}
		return v
	case "from":
		for ty := HandOverToMe; ty <= TakeOverFromMe; ty++ {
			if ty.String() == args[1] {
				return Receive{node(args[0]), Message{"it", ty}}
			}
		}
	case "started":
		return InstanceStarted{}
	case "stopped":
		return InstanceStopped{}
	case "tick":
		s.now = s.now.Add(s.duration(args[0]))
		return Tick{}
	}
	s.t.Fatalf("unknown command %q %v", command, args)
	return nil
}

func (s *script) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func node(name string) transport.Address { return transport.Address{Name: name, Incarnation: 1} }

func TestOtherNamesAreIgnored(t *testing.T) {
	m, err := New(Config{Name: "it", Self: node("a")})
	if err != nil {
		t.Fatal(err)
	}
	out := m.Step(time.Unix(1, 0), Receive{node("b"), Message{"other", HandOverToMe}})
	if len(out.Send) > 0 || m.State() != Start {
		t.Errorf("a message for another singleton gives %+v in %v", out, m.State())
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, c := range map[string]Config{
		"no name":  {Self: node("a")},
		"no self":  {Name: "it"},
		"negative": {Name: "it", Self: node("a"), RetryInterval: -1},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestCodec(t *testing.T) {
	for ty := HandOverToMe; ty <= TakeOverFromMe; ty++ {
		want := Message{"it", ty}
		b, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(b); err != nil || got != want {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
	for _, m := range []Message{{"", HandOverDone}, {"it", 0}, {"it", 9}, {strings.Repeat("x", 257), HandOverDone}} {
		if b, err := Encode(m); err == nil {
			t.Errorf("%v was encoded as %x", m, b)
		}
	}
	for _, b := range []string{"", "\x08\x02\x12\x02it\x18\x01", "\x08\x01\x18\x01", "\x08\x01\x12\x02it", "\x08\x01\x12\x02it\x18\x09", "foreign"} {
		if m, err := Decode([]byte(b)); err == nil {
			t.Errorf("%q was decoded as %v", b, m)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x08\x01\x12\x02it\x18\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Encode(m)
		if err != nil {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
		if same, err := Decode(again); err != nil || same != m {
			t.Fatalf("decoded %v, then %v, %v", m, same, err)
		}
	})
}

// TestNames keeps every value with a name of its own.
func TestNames(t *testing.T) {
	var names []string
	for s := Start; s <= End; s++ {
		names = append(names, s.String())
	}
	for s := Joining; s <= Down; s++ {
		names = append(names, s.String())
	}
	for ty := HandOverToMe; ty <= TakeOverFromMe; ty++ {
		names = append(names, ty.String())
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) || strings.Contains(strings.Join(names, " "), "(") {
		t.Errorf("names: %v", names)
	}
}
