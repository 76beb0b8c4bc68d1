package natstransport

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/shardgen/shardgen/transport"
)

// gatewayQueue is the queue group of which one member gets an Anycast.
const gatewayQueue = "gw"

// Words that follow the channel in a reply subject.
const (
	wordFrame       = "f" // a frame to a client
	wordUnreachable = "u" // u.<peer name>.<peer incarnation>.<token>
	wordAnycast     = "a" // a.<token>
)

// maxReplyBytes is more than the longest reply subject: two names of 64 bytes,
// two incarnations and a token of 16 digits, and a cluster of 64 bytes.
const maxReplyBytes = 320

// subjects are the names of one channel of one link, built once.
type subjects struct {
	prefix    string // "sh.<cluster>."
	channel   string // "<lane>" or "ctl"
	requests  string // own, as a member
	replies   string // own, with a dot at the end
	broadcast string
	gateway   string
	anycast   string // reply prefix of an Anycast
}

func newSubjects(cluster string, self transport.Address, ch transport.Channel) subjects {
	s := subjects{prefix: "sh." + cluster + ".", channel: channelWord(ch)}
	s.requests = s.prefix + "n." + node(self) + "." + s.channel
	s.replies = s.prefix + "r." + node(self) + "." + s.channel + "."
	s.broadcast = s.prefix + "ctl.all"
	s.gateway = s.prefix + "gw.ctl"
	s.anycast = s.replies + wordAnycast + "."
	return s
}

func channelWord(ch transport.Channel) string {
	if ch == transport.Control {
		return "ctl"
	}
	return strconv.Itoa(int(ch))
}

func node(a transport.Address) string {
	return fmt.Sprintf("%s.%016x", a.Name, a.Incarnation)
}

// A route is how one peer is reached on one channel.
type route struct {
	subject string // to publish to
	reply   string // of the 503, without the token
}

func (s *subjects) route(to transport.Peer) (route, error) {
	if err := transport.CheckName("node", to.Name); err != nil {
		return route{}, err
	}
	r := route{reply: s.replies + wordUnreachable + "." + node(to.Address) + "."}
	if to.Client {
		r.subject = s.prefix + "r." + node(to.Address) + "." + s.channel + "." + wordFrame
	} else {
		r.subject = s.prefix + "n." + node(to.Address) + "." + s.channel
	}
	return r, nil
}

// replySubject ends a reply prefix with the token. It allocates once.
func replySubject(prefix string, token uint64) string {
	var b [maxReplyBytes]byte
	return string(strconv.AppendUint(append(b[:0], prefix...), token, 16))
}

// parseUnreachable reads the text after wordUnreachable and the dot.
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

// maxRoutes bounds the cached routes; clients come and go.
const maxRoutes = 4096

// routes caches the subjects of peers. It is safe for concurrent use.
type routes struct {
	subjects *subjects

	mu     sync.RWMutex
	byPeer map[transport.Peer]route
}

// route returns the subjects of a peer.
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
		clear(r.byPeer)
	}
	r.byPeer[to] = found
	return found, nil
}
