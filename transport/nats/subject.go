package natstransport

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// Queue groups. Each message goes to one member of a group.
const (
	anyQueue     = "any" // an Anycast
	gatewayQueue = "gw"  // a request of any client of the broker
)

// Words after the cluster in subjects.
const (
	wordMember   = "m"
	wordClient   = "c"
	wordOperator = "o"
	wordReply    = "r"
)

// Words in subjects for receivers and for operators' rights.
const (
	wordAll     = "all"
	wordAny     = "any"
	wordGet     = "get"
	wordDo      = "do"
	wordControl = "ctl"
)

// Words that follow the channel in a reply subject.
const (
	wordFrame       = "f" // a frame to a client
	wordUnreachable = "u" // u.<peer name>.<peer incarnation>.<token>
	wordAnycast     = "a" // a.<token>
)

// wordProbe is the last word of subjects to which nobody listens. Publishing to one shows whether the
// server grants the right to publish.
const wordProbe = "probe"

// maxReplyBytes exceeds any reply subject's length: two names and a cluster of 64 bytes each, two
// incarnations, and a token of 16 digits.
const maxReplyBytes = 320

// subjects are a channel's subjects, built once. After "sh." and the cluster they have the sender's
// class and name, which permissions check; subjects between members name only the receiver.
type subjects struct {
	prefix    string // "sh.<cluster>."
	channel   string // "<lane>" or "ctl"
	class     identity.Class
	say       string   // prefix of the subjects of messages to members
	replies   string   // prefix of this process's reply subjects, with a dot at the end
	broadcast string   // to publish to; "" for clients
	anycast   string   // to publish to
	nobody    string   // reply prefix of an Anycast
	listen    []string // to subscribe to beside replies
	serve     []string // to subscribe to in the queue group while the link serves
}

func newSubjects(cluster string, self transport.Address, ch transport.Channel) subjects {
	s := subjects{prefix: "sh." + cluster + ".", channel: channelWord(ch), class: identity.Of(self.Incarnation)}
	s.replies = s.answers(transport.Peer{Address: self, Client: s.class != identity.Member}) + "."
	s.nobody = s.replies + wordAnycast + "."
	incarnation := fmt.Sprintf("%016x", self.Incarnation)
	switch s.class {
	case identity.Client:
		s.say = s.prefix + wordClient + "." + node(self) + "."
	case identity.Reader:
		s.say = s.prefix + wordOperator + "." + self.Name + "." + wordGet + "." + incarnation + "."
	case identity.Operator:
		s.say = s.prefix + wordOperator + "." + self.Name + "." + wordDo + "." + incarnation + "."
	default:
		s.say = s.prefix + wordMember + "."
		s.memberListens(node(self))
	}
	s.anycast = s.say + wordAny
	if s.class != identity.Client {
		s.broadcast = s.say + wordAll
	}
	return s
}

func (s *subjects) memberListens(self string) {
	members, clients, operators := s.prefix+wordMember+".", s.prefix+wordClient+".*.*.", s.prefix+wordOperator+".*.*.*."
	s.listen = []string{members + self + "." + s.channel, clients + self + "." + s.channel}
	if s.channel == wordControl {
		s.listen = append(s.listen, members+wordAll, operators+self, operators+wordAll)
		s.serve = []string{members + wordAny, clients + wordAny, operators + wordAny}
	}
}

// answers returns the prefix of the subjects of answers and of the broker's reports to a peer.
func (s *subjects) answers(to transport.Peer) string {
	class := wordMember
	if to.Client {
		class = wordClient
		if identity.Of(to.Incarnation) >= identity.Reader {
			class = wordOperator
		}
	}
	return s.prefix + wordReply + "." + class + "." + node(to.Address) + "." + s.channel
}

func channelWord(ch transport.Channel) string {
	if ch == transport.Control {
		return wordControl
	}
	return strconv.Itoa(int(ch))
}

func node(a transport.Address) string {
	return fmt.Sprintf("%s.%016x", a.Name, a.Incarnation)
}

// probes returns a subject for each right to publish. An opening link publishes to each, so that a
// missing right makes Open fail, and not the first call.
func (s *subjects) probes(self transport.Address) []string {
	all := []string{s.say + wordProbe}
	if s.class == identity.Member {
		for _, class := range []string{wordClient, wordOperator} {
			all = append(all, s.prefix+wordReply+"."+class+"."+node(self)+"."+wordProbe)
		}
	}
	return all
}

// addressee returns the process to which a refused subject leads, or zero.
func (s *subjects) addressee(subject string) (a transport.Address) {
	rest, ok := strings.CutPrefix(subject, s.say)
	if !ok {
		rest, _ = strings.CutPrefix(subject, s.prefix+wordReply+".")
		_, rest, _ = strings.Cut(rest, ".") // the class
	}
	a, _ = address(rest)
	return a
}

// address parses "<name>.<incarnation>" at the beginning of text.
func address(text string) (a transport.Address, ok bool) {
	name, rest, _ := strings.Cut(text, ".")
	digits, _, _ := strings.Cut(rest, ".")
	incarnation, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || len(digits) != 16 {
		return transport.Address{}, false
	}
	return transport.Address{Name: name, Incarnation: incarnation}, true
}

type route struct {
	subject string // to publish to
	reply   string // reply subject for the broker's 503, without the token
}

func (s *subjects) route(to transport.Peer) (route, error) {
	if err := transport.CheckName("node", to.Name); err != nil {
		return route{}, err
	}
	r := route{reply: s.replies + wordUnreachable + "." + node(to.Address) + "."}
	switch {
	case to.Client:
		r.subject = s.answers(to) + "." + wordFrame
	case s.class >= identity.Reader: // operators have only the control channel
		r.subject = s.say + node(to.Address)
	default:
		r.subject = s.say + node(to.Address) + "." + s.channel
	}
	return r, nil
}

// sender parses "c.<name>.<incarnation>." or "o.<name>.<get|do>.<incarnation>.".
func sender(subject string) (from transport.Address, rest string, ok bool) {
	class, rest, _ := strings.Cut(subject, ".")
	name, rest, _ := strings.Cut(rest, ".")
	var want identity.Class
	switch class {
	case wordClient:
		want = identity.Client
	case wordOperator:
		var aim string
		aim, rest, _ = strings.Cut(rest, ".")
		switch aim {
		case wordGet:
			want = identity.Reader
		case wordDo:
			want = identity.Operator
		default:
			return from, "", false
		}
	default:
		return from, "", false
	}
	digits, rest, ok := strings.Cut(rest, ".")
	if !ok || len(digits) != 16 || strings.ToLower(digits) != digits || transport.CheckName("sender", name) != nil {
		return from, "", false
	}
	incarnation, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || identity.Of(incarnation) != want {
		return from, "", false
	}
	return transport.Address{Name: name, Incarnation: incarnation}, rest, true
}

// senders remembers the last sender, to parse it once. Only the receiving goroutine uses it.
type senders struct {
	last string // the subject's beginning, up to the dot after the incarnation; "" means none
	from transport.Address
}

func (s *senders) sender(subject string) (from transport.Address, rest string, ok bool) {
	if s.last != "" {
		if rest, ok := strings.CutPrefix(subject, s.last); ok { // the dot ends the part that names the sender
			return s.from, rest, true
		}
	}
	if from, rest, ok = sender(subject); ok {
		s.last, s.from = subject[:len(subject)-len(rest)], from
	}
	return from, rest, ok
}

// replySubject appends the token to the prefix. It allocates once.
func replySubject(prefix string, token uint64) string {
	var b [maxReplyBytes]byte
	return string(strconv.AppendUint(append(b[:0], prefix...), token, 16))
}

func parseUnreachable(s string) (from transport.Address, token uint64, ok bool) {
	name, rest, ok := strings.Cut(s, ".")
	if !ok {
		return transport.Address{}, 0, false
	}
	inc, tok, ok := strings.Cut(rest, ".")
	if !ok {
		return transport.Address{}, 0, false
	}
	incarnation, err := strconv.ParseUint(inc, 16, 64)
	if err != nil {
		return transport.Address{}, 0, false
	}
	token, ok = parseToken(tok)
	return transport.Address{Name: name, Incarnation: incarnation}, token, ok
}

func parseToken(s string) (token uint64, ok bool) {
	token, err := strconv.ParseUint(s, 16, 64)
	return token, err == nil
}

// maxRoutes bounds a channel's cached routes, of about 350 bytes each: clients come and go, and a
// hostile one can use any number of incarnations.
const maxRoutes = 1024

// routesFor is how long routes are cached, including those of gone clients.
const routesFor = time.Minute

// routes caches the subjects of peers. It is safe for concurrent use.
type routes struct {
	subjects *subjects

	mu     sync.RWMutex
	byPeer map[transport.Peer]route
	began  time.Time // when expire last emptied byPeer
}

// expire drops all routes once in routesFor. Routes in use are then made again.
func (r *routes) expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.began) < routesFor {
		return
	}
	r.byPeer, r.began = map[transport.Peer]route{}, now
}

func (r *routes) route(to transport.Peer) (route, error) {
	r.mu.RLock()
	found, ok := r.byPeer[to]
	r.mu.RUnlock()
	if ok {
		return found, nil
	}
	found, err := r.subjects.route(to)
	if err != nil {
		return found, err
	}
	// A name cut from a larger buffer would keep all of it alive.
	to.Name = strings.Clone(to.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byPeer) >= maxRoutes {
		r.byPeer = map[transport.Peer]route{} // a map that is cleared keeps its memory
	}
	r.byPeer[to] = found
	return found, nil
}
