package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// Intervals and time limits for serving the shard table to processes outside the cluster.
const (
	gatewayStatusEvery = time.Second
	gatewayForget      = 10 * time.Second // how long after its last hello a client is forgotten
	HelloEvery         = time.Second      // interval of a client's hellos to its gateway
)

// A gateway sends clients the shard table: each change at once, a status every second, and the
// whole table on request. It is used only on the control loop.
type gateway struct {
	m       *Member
	clients map[transport.Address]*servedClient
	named   clientsByName        // clients that sent something lately
	asked   map[string]askedType // types whose homes clients wait for
	last    *placement.Table     // the table last sent to clients
	lost    []*wire.GatewayNode  // the latest members that were downed
	at      time.Time            // when the next status is due; zero means that no client is served and nothing can expire
	met     quota                // counts new clients

	mostClients, mostAsked int // largest sizes of the maps so far, for bounded.Refit
}

type servedClient struct {
	peer   transport.Peer
	seen   time.Time
	digest uint64 // identifies the member list that the client has
	hello  uint64 // number of the client's latest hello
	hellos quota
}

func (g *gateway) init(m *Member) {
	g.m, g.clients = m, map[transport.Address]*servedClient{}
	g.named, g.asked = clientsByName{}, map[string]askedType{}
}

func (g *gateway) served() []*servedClient {
	return slices.SortedFunc(maps.Values(g.clients), func(a, b *servedClient) int {
		return a.peer.Compare(b.peer.Address)
	})
}

func (g *gateway) wakeAt() time.Time { return g.at }

func (g *gateway) message(from transport.Peer, body []byte) error {
	var m wire.Gateway
	if err := proto.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("read gateway message: %w", err)
	}
	switch {
	case m.GetProbe() != nil:
		// A probe needs no answer: if it arrives, the broker does not report to its sender that
		// nobody listens.
	case !from.Client:
		return fmt.Errorf("gateway message from %v, which is not a client", from.Address)
	case m.GetBye() != nil:
		g.drop(from.Address)
	case m.GetHello() != nil:
		g.hello(from, m.GetHello())
	}
	return nil
}

// probe sends a message to any member that serves clients. If there is none, the broker answers
// that nobody listens.
func (g *gateway) probe() {
	body, err := proto.Marshal(&wire.Gateway{Probe: &wire.GatewayProbe{}})
	if err == nil {
		err = g.m.env.Link().Anycast(0, g.m.seal(wire.ControlTopic_CONTROL_TOPIC_GATEWAY, body))
	}
	if err != nil && !errors.Is(err, transport.ErrDisconnected) {
		g.m.env.LogSeldom(Warn, "members cannot be asked whether one serves", "", "err", err)
	}
}

func (g *gateway) hello(from transport.Peer, h *wire.GatewayHello) {
	now := g.m.env.Now()
	if !g.serves() {
		g.send(from, &wire.Gateway{Bye: &wire.GatewayBye{}}) // another member answers the client's next hello
		return
	}
	if reason := g.mismatch(h); reason != "" {
		g.send(from, &wire.Gateway{Refusal: &wire.GatewayRefusal{Reason: reason}})
		return
	}
	client := g.admit(from, now)
	if client == nil {
		return
	}
	client.seen, client.digest, client.hello = now, h.GetMembers(), h.GetSeq()
	for _, kind := range h.GetAsks() {
		g.ask(from, kind, now)
	}
	g.welcome(client)
	g.status(from)
}

// welcome sends a client the hosted types and the lost members. If the digest shows that the client
// has another list of members, welcome also sends the members.
func (g *gateway) welcome(client *servedClient) {
	m := &wire.GatewayWelcome{
		Kinds: g.types(), Lost: g.lost, Founder: nodeOf(g.m.View().Founder), Hello: client.hello,
	}
	members := g.members()
	if m.Digest = digestOf(members); m.Digest != client.digest {
		m.Members, client.digest = members, m.Digest
	}
	g.send(client.peer, &wire.Gateway{Welcome: m})
}

func (g *gateway) members() []*wire.GatewayNode {
	var list []*wire.GatewayNode
	for _, m := range g.m.View().ByAddress {
		if m.Status != membership.Down {
			list = append(list, nodeOf(m.Address))
		}
	}
	return list
}

func nodeOf(a transport.Address) *wire.GatewayNode {
	return &wire.GatewayNode{Name: a.Name, Incarnation: a.Incarnation}
}

// AddressOf returns the address of a process that a gateway message names.
func AddressOf(n *wire.GatewayNode) transport.Address {
	return transport.Address{Name: n.GetName(), Incarnation: n.GetIncarnation()}
}

// digestOf returns a hash of a list of members, never 0 for a list with members.
func digestOf(list []*wire.GatewayNode) uint64 {
	h := xxhash.New()
	for _, n := range list {
		fmt.Fprintf(h, "%s %x\n", n.GetName(), n.GetIncarnation())
	}
	return h.Sum64()
}

const maxLost = 64

func (g *gateway) lostMember(a transport.Address) {
	if slices.ContainsFunc(g.lost, func(n *wire.GatewayNode) bool { return AddressOf(n) == a }) {
		return
	}
	g.lost = append(g.lost, nodeOf(a))
	g.lost = g.lost[max(0, len(g.lost)-maxLost):]
	for _, client := range g.served() {
		g.welcome(client)
	}
}

// serves reports whether this member may serve clients. A leaving member may not: it will soon have
// no shard table.
func (g *gateway) serves() bool {
	v := g.m.View()
	return v != nil && v.SelfStatus == membership.Up
}

// membersChanged sends the clients the changed members. If this member may not serve, it sends all
// clients away instead.
func (g *gateway) membersChanged() {
	if len(g.clients) == 0 {
		return
	}
	if !g.serves() {
		for _, client := range g.served() {
			g.send(client.peer, &wire.Gateway{Bye: &wire.GatewayBye{}})
			g.drop(client.peer.Address)
		}
		return
	}
	now := digestOf(g.members())
	for _, client := range g.served() {
		if client.digest != now {
			g.welcome(client)
		}
	}
}

func (g *gateway) mismatch(h *wire.GatewayHello) string {
	if lanes := g.m.cfg.Lanes; int(h.GetLanes()) != lanes {
		return fmt.Sprintf("Config.Lanes is %d in the cluster and %d in this process (set it alike)", lanes, h.GetLanes())
	}
	if h.GetFrame() != wire.FrameVersion {
		return fmt.Sprintf("the cluster speaks frame format %d, this process %d (upgrade the older one)", wire.FrameVersion, h.GetFrame())
	}
	return ""
}

func (g *gateway) types() []*wire.GatewayKind {
	var kinds []*wire.GatewayKind
	seen := map[string]bool{}
	for _, m := range g.m.View().ByAddress {
		for _, kv := range m.Meta {
			name, ok := hostmeta.Split(kv.Key)
			shards, hosted := hostmeta.Value(kv.Value, hostmeta.Shards)
			if !ok || seen[name] || !hosted {
				continue
			}
			seen[name] = true
			n, _ := strconv.ParseUint(shards, 10, 32)
			hash, _ := hostmeta.Value(kv.Value, hostmeta.Hash)
			pkg, _ := hostmeta.Value(kv.Value, hostmeta.Package)
			kinds = append(kinds, &wire.GatewayKind{Name: name, Shards: uint32(n), Hash: hash, Package: pkg})
		}
	}
	slices.SortFunc(kinds, func(a, b *wire.GatewayKind) int { return strings.Compare(a.GetName(), b.GetName()) })
	return kinds
}

func (g *gateway) send(to transport.Peer, m *wire.Gateway) {
	body, err := proto.Marshal(m)
	g.m.send(to, wire.ControlTopic_CONTROL_TOPIC_GATEWAY, body, err)
}

func (g *gateway) status(to transport.Peer) {
	if t := g.m.follower.core.Table(); t != nil {
		g.m.SendPlacement(to, coordinator.TableStatus{Version: t.Version()})
	}
}

func (g *gateway) placement(from transport.Peer, m coordinator.Message) {
	t := g.m.follower.core.Table()
	switch m := m.(type) {
	case coordinator.TableRequest:
		for _, part := range coordinator.Answer(t, m) {
			g.m.SendPlacement(from, part)
		}
	case coordinator.Ask:
		g.ask(from, m.Type, g.m.env.Now())
	}
}

func (g *gateway) tableChanged(t *placement.Table) {
	last := g.last
	g.last = t
	if len(g.clients) == 0 {
		return
	}
	for _, part := range coordinator.Split(last.Diff(t)) {
		for _, client := range g.served() {
			g.m.SendPlacement(client.peer, part)
		}
	}
}

// noHome sends the clients that asked for homes of a type the reason why the type has none. Then it
// forgets that the clients asked: they ask again with each hello.
func (g *gateway) noHome(m coordinator.NoHome) {
	asked := g.asked[m.Type]
	if len(asked.askers) == 0 {
		return
	}
	for _, client := range asked.askers {
		g.m.SendPlacement(client, m)
	}
	asked.askers = nil
	g.asked[m.Type] = asked
}

func (g *gateway) wants(kind string) bool {
	asked, ok := g.asked[kind]
	return ok && g.m.env.Now().Sub(asked.at) < 2*HelloEvery
}

// unreachable drops a client at whose address nobody listens. If the client still runs, it says
// hello again.
func (g *gateway) unreachable(a transport.Address) { g.drop(a) }

func (g *gateway) tick(now time.Time) {
	if g.at.IsZero() || now.Before(g.at) {
		return
	}
	g.at = now.Add(gatewayStatusEvery)
	for _, client := range g.served() {
		if now.Sub(client.seen) > gatewayForget {
			g.drop(client.peer.Address)
			continue
		}
		g.status(client.peer)
	}
	g.expire(now)
	if len(g.clients) == 0 && len(g.asked) == 0 && len(g.named) == 0 {
		g.at = time.Time{}
	}
}

func (g *gateway) refuse(to transport.Peer, why string, now time.Time) {
	of := g.clientsOf(to.Name, now)
	if n, tell := g.m.env.CountOf(OverQuota, to.Name); tell {
		g.m.env.Log(Warn, "client refused: too many of its name", "from", to.Address.String(), "why", why, "count", n)
	}
	if of.refused.take(now, maxRefused) {
		g.send(to, &wire.Gateway{Refusal: &wire.GatewayRefusal{Reason: why}})
	}
}

func (g *gateway) drop(a transport.Address) {
	if _, ok := g.clients[a]; !ok {
		return
	}
	delete(g.clients, a)
	if of := g.named[a.Name]; of != nil {
		of.clients--
	}
}

// expire forgets types that no client asks for, and names without messages for gatewayForget.
func (g *gateway) expire(now time.Time) {
	for kind, asked := range g.asked { //arch:order-free each is removed by itself
		if g.wants(kind) {
			continue
		}
		delete(g.asked, kind)
		if of := g.named[asked.by]; of != nil {
			of.asked--
		}
	}
	g.asked = bounded.Refit(g.asked, &g.mostAsked)
	g.clients = bounded.Refit(g.clients, &g.mostClients)
	for name, of := range g.named { //arch:order-free each is removed by itself
		if of.clients == 0 && of.asked == 0 && now.Sub(of.seen) > gatewayForget {
			delete(g.named, name)
		}
	}
}
