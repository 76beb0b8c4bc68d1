package singleton

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/transcript"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// TestTranscripts runs testdata/*.txt, see package transcript. The commands:
//
//	manager NODE [role=R] [margin=1s] [lease] [at=leaving] [retries=N]
//	view NODE:STATUS:AGE[:ROLE] ...
//	from NODE MESSAGE [handed]
//	arrived NODE
//	started | stopped [handed]
//	lease acquired|denied|lost|released
//	quit
//	tick DURATION
//
// and for a proxy, which takes view and tick, too:
//
//	proxy [role=R] [at=leaving]
//	guide NODE | want | lost NODE
//	identity FROM ID INSTANCE EPOCH | identity FROM ID nowhere REASON
func TestTranscripts(t *testing.T) {
	transcript.Run(t, func(t *testing.T) transcript.Command { return (&script{t: t, now: time.Unix(1_000_000, 0)}).run })
}

type script struct {
	t   *testing.T
	now time.Time
	m   *Manager
	p   *Proxy // if set, it is what the script is about
}

func (s *script) run(words []string) string {
	if words[0] == "manager" {
		s.m = s.manager(words[1:])
		return ""
	}
	if words[0] == "proxy" {
		s.p = s.proxy(words[1:])
		return ""
	}
	in := s.input(words[0], words[1:])
	if s.p != nil {
		return s.proxyStep(in.(ProxyInput))
	}
	out := s.m.Step(s.now, in.(Input))
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
		if e.Stuck {
			b.WriteString("  (stuck)\n")
		}
	}
	if out.AcquireLease {
		b.WriteString("acquire the lease\n")
	}
	if out.StartInstance {
		fmt.Fprintf(&b, "start the instance at %v", out.Epoch)
		if !out.Predecessor.IsZero() {
			fmt.Fprintf(&b, ", with what comes from %s", out.Predecessor.Name)
		}
		if out.Relay {
			b.WriteString(", only to pass it on")
		}
		b.WriteString("\n")
	}
	if out.StopInstance {
		b.WriteString("stop the instance")
		if !out.Successor.IsZero() {
			fmt.Fprintf(&b, ", it goes to %s at %v", out.Successor.Name, out.SuccessorEpoch)
		}
		b.WriteString("\n")
	}
	if out.ReleaseLease {
		b.WriteString("release the lease\n")
	}
	for _, e := range out.Send {
		fmt.Fprintf(&b, "→ %s %v", e.To.Name, e.Message.Type)
		if e.Message.Handed {
			b.WriteString(" (handed)")
		}
		b.WriteString("\n")
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
		case "lease":
			c.Lease = true
		case "at":
			c.HandoffAt = membership.Leaving
		case "retries":
			n, err := strconv.Atoi(v)
			if err != nil {
				s.t.Fatal(err)
			}
			c.MaxHandoffRetries = n
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

func (s *script) input(command string, args []string) any {
	switch command {
	case "view":
		var v View
		for _, a := range args {
			fields := strings.Split(a, ":")
			age, err := strconv.ParseUint(fields[2], 10, 32)
			if err != nil {
				s.t.Fatal(err)
			}
			m := Member{Address: node(fields[0]), UpNumber: uint32(age), Roles: fields[3:]}
			for st := membership.Joining; st <= membership.Down; st++ {
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
				return Receive{node(args[0]), Message{Name: "it", Type: ty, Handed: len(args) > 2}}
			}
		}
	case "arrived":
		return Arrived{node(args[0])}
	case "started":
		return InstanceStarted{}
	case "stopped":
		return InstanceStopped{Handed: len(args) > 0, Reason: "it panicked"}
	case "quit":
		return Quit{}
	case "lease":
		switch args[0] {
		case "acquired":
			return LeaseAcquired{}
		case "denied":
			return LeaseDenied{Reason: "held by x"}
		case "lost":
			return LeaseLost{}
		case "released":
			return LeaseReleased{}
		}
	case "guide":
		return Guide{node(args[0])}
	case "want":
		return Want{}
	case "lost":
		return Lost{node(args[0])}
	case "identity":
		return s.identity(args)
	case "tick":
		s.now = s.now.Add(s.duration(args[0]))
		return Tick{}
	}
	s.t.Fatalf("unknown command %q %v", command, args)
	return nil
}

func (s *script) identity(args []string) Receive {
	id, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	m := Message{Name: "it", Type: Identity, ID: id}
	if args[2] == "nowhere" {
		m.Reason = strings.Join(args[3:], " ")
		return Receive{node(args[0]), m}
	}
	epoch, err := strconv.ParseUint(args[3], 10, 32)
	if err != nil {
		s.t.Fatal(err)
	}
	m.Instance, m.Epoch = node(args[2]), placement.MakeEpoch(uint32(epoch), 1)
	return Receive{node(args[0]), m}
}

func (s *script) proxy(args []string) *Proxy {
	c := ProxyConfig{Name: "it"}
	for _, a := range args {
		if r, ok := strings.CutPrefix(a, "role="); ok {
			c.Role = r
		}
		if a == "at=leaving" {
			c.HandoffAt = membership.Leaving
		}
	}
	p, err := NewProxy(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *script) proxyStep(in ProxyInput) string {
	out := s.p.Step(s.now, in)
	var b strings.Builder
	for _, e := range out.Send {
		fmt.Fprintf(&b, "→ %s %v %d\n", e.To.Name, e.Message.Type, e.Message.ID)
	}
	if out.Found != nil {
		fmt.Fprintf(&b, "found at %s under %v\n", out.Found.Node.Name, out.Found.Epoch)
	}
	if why := s.p.Why(); why != "" {
		fmt.Fprintf(&b, "calls wait: %s\n", why)
	}
	if !out.WakeAt.IsZero() {
		fmt.Fprintf(&b, "wake in %v\n", out.WakeAt.Sub(s.now))
	}
	return b.String()
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
	out := m.Step(time.Unix(1, 0), Receive{node("b"), Message{Name: "other", Type: HandOverToMe}})
	if len(out.Send) > 0 || m.State() != Start {
		t.Errorf("a message for another singleton gives %+v in %v", out, m.State())
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, c := range map[string]Config{
		"no name":  {Self: node("a")},
		"no self":  {Name: "it"},
		"long":     {Name: strings.Repeat("x", 257), Self: node("a")},
		"negative": {Name: "it", Self: node("a"), Options: Options{HandoffRetry: -1}},
		"retries":  {Name: "it", Self: node("a"), Options: Options{MaxHandoffRetries: -1}},
		"when":     {Name: "it", Self: node("a"), HandoffAt: membership.Up},
		"backoff":  {Name: "it", Self: node("a"), Options: Options{RestartBackoff: 2, MaxRestartBackoff: 1}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := New(Config{Name: strings.Repeat("x", 256), Self: node("a")}); err != nil {
		t.Error(err)
	}
}

func TestCodec(t *testing.T) {
	for ty := HandOverToMe; ty <= Identity; ty++ {
		want := Message{Name: "it", Type: ty, Handed: true, ID: 7, Reason: "why"}
		if ty == Identity {
			want.Instance, want.Epoch = node("a"), placement.MakeEpoch(3, 2)
		}
		b, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(b); err != nil || got != want {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
	longest := Message{Name: strings.Repeat("x", maxNameBytes), Type: Identity, Reason: strings.Repeat("x", maxReasonBytes)}
	if b, err := Encode(longest); err != nil {
		t.Error(err)
	} else if got, err := Decode(b); err != nil || got != longest {
		t.Errorf("the longest texts that may be: got %v, %v", got, err)
	}
	for _, m := range []Message{
		{Type: HandOverDone},
		{Name: "it"},
		{Name: "it", Type: 9},
		{Name: strings.Repeat("x", 257), Type: HandOverDone},
		{Name: "it", Type: Identity, Instance: node("a")},
		{Name: "it", Type: Identify, Instance: node("a"), Epoch: 1},
		{Name: "it", Type: Identity, Instance: node("no name"), Epoch: 1},
		{Name: "it", Type: Identity, Epoch: 1},
		{Name: "it", Type: Identity, Reason: strings.Repeat("x", 1025)},
	} {
		if b, err := Encode(m); err == nil {
			t.Errorf("%v was encoded as %x", m, b)
		}
	}
	for _, b := range []string{
		"", "\x08\x02\x12\x02it\x18\x01", "\x08\x01\x18\x01", "\x08\x01\x12\x02it", "\x08\x01\x12\x02it\x18\x09",
		"\x08\x01\x12\x02it\x18\x81\x02",                                 // type 257, of which the lowest byte is 1
		"\x08\x01\x12\x02it\x18\x81\xfe\xff\xff\xff\xff\xff\xff\xff\x01", // and -255
		"foreign",
	} {
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
	for ty := HandOverToMe; ty <= Identity; ty++ {
		names = append(names, ty.String())
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) || strings.Contains(strings.Join(names, " "), "(") {
		t.Errorf("names: %v", names)
	}
}
