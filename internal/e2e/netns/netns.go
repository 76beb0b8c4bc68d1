// Package netns makes networks of Linux network namespaces, in which packets can
// be dropped: partitions, one-way cuts and loss between real processes.
//
// A [Network] is a bridge in a namespace of its own, and each [Host] is a
// namespace with one address that is connected to that bridge. The rules that
// drop packets are nftables rules of the bridge, so that they are in one place
// and replaced as a whole. Nothing of it can be reached from outside, and nothing
// outside is changed.
//
// The namespaces have no names: they are held open by this process and by the
// processes that run in them, and the kernel removes them with the last of these,
// however that ends. So there is nothing to clean up after a run that was killed.
//
// It needs root, iproute2 and nftables; [Supported] reports which of them is missing.
package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxHosts bounds the hosts of a network: each has the last byte of an address.
const maxHosts = 250

// A Network is a bridge with hosts. All methods are safe for concurrent use.
type Network struct {
	hub *namespace // of the bridge

	mu     sync.Mutex
	hosts  []*Host
	closed bool
}

// A Host is a network namespace with one address. All methods are safe for
// concurrent use.
type Host struct {
	name      string
	addr      string
	namespace *namespace
}

// A Rule drops packets on their way from some hosts to others.
type Rule struct {
	From, To []*Host
	// Percent is how many of a hundred packets are dropped, each by chance. 0
	// means all of them.
	Percent int
}

// New makes a network without hosts. It fails with the sentence of [Supported]
// where namespaces cannot be made. Close it in any case.
func New() (*Network, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	hub, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("make a network: %w", err)
	}
	n := &Network{hub: hub}
	if err := hub.run("link add br0 type bridge\nlink set br0 up\n", "ip", "-batch", "-"); err != nil {
		return nil, errors.Join(fmt.Errorf("make a network: bridge: %w", err), n.Close())
	}
	return n, nil
}

// Add makes a host. name is for messages.
func (n *Network) Add(name string) (*Host, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	number := len(n.hosts) + 1
	if number > maxHosts {
		return nil, fmt.Errorf("add host %s: the network has %d hosts already", name, maxHosts)
	}
	inside, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("add host %s: %w", name, err)
	}
	h := &Host{name: name, addr: fmt.Sprintf("10.77.0.%d", number), namespace: inside}
	port := fmt.Sprintf("port%d", number)
	err = errors.Join(
		n.hub.run(fmt.Sprintf("link add %s type veth peer name eth0 netns %s\nlink set %s master br0 up\n", port, inside.path(), port), "ip", "-batch", "-"),
		inside.run(fmt.Sprintf("link set lo up\naddress add %s/24 dev eth0\nlink set eth0 up\n", h.addr), "ip", "-batch", "-"),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("add host %s: %w", name, err), inside.close())
	}
	n.hosts = append(n.hosts, h)
	return h, nil
}

// Hosts are all hosts, in the order in which they were added.
func (n *Network) Hosts() []*Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.hosts)
}

// Drop drops packets by these rules from now on, in the place of all former ones;
// none ends that nothing is dropped any more. A packet is dropped when any rule
// drops it. The rules change as a whole, between two packets.
func (n *Network) Drop(rules ...Rule) error {
	text, err := ruleset(rules)
	if err == nil {
		err = n.hub.run(text, "nft", "-f", "-")
	}
	if err != nil {
		return fmt.Errorf("drop packets: %w", err)
	}
	return nil
}

// Dropped is the number of packets that the present rules have dropped.
func (n *Network) Dropped() (packets int, err error) {
	text, err := n.hub.output("", "nft", "list", "ruleset")
	if err != nil {
		return 0, fmt.Errorf("count dropped packets: %w", err)
	}
	fields := strings.Fields(text)
	for i, f := range fields {
		var count int
		if f == "packets" && i+1 < len(fields) {
			if _, err := fmt.Sscan(fields[i+1], &count); err == nil {
				packets += count
			}
		}
	}
	return packets, nil
}

// ruleset is the rules in the language of nft, beginning with the removal of the
// former ones.
func ruleset(rules []Rule) (string, error) {
	var b strings.Builder
	b.WriteString("add table bridge fault\ndelete table bridge fault\ntable bridge fault {\n\tchain forward {\n\t\ttype filter hook forward priority 0;\n")
	for _, r := range rules {
		if len(r.From) == 0 || len(r.To) == 0 {
			return "", errors.New("a rule needs hosts on both sides")
		}
		if r.Percent < 0 || r.Percent > 100 {
			return "", fmt.Errorf("%d percent: want 0 to 100", r.Percent)
		}
		chance := ""
		if r.Percent > 0 {
			chance = fmt.Sprintf(" numgen random mod 100 < %d", r.Percent)
		}
		fmt.Fprintf(&b, "\t\tip saddr %s ip daddr %s%s counter drop\n", addresses(r.From), addresses(r.To), chance)
	}
	b.WriteString("\t}\n}\n")
	return b.String(), nil
}

func addresses(hosts []*Host) string {
	var all []string
	for _, h := range hosts {
		all = append(all, h.addr)
	}
	return "{ " + strings.Join(all, ", ") + " }"
}

// Close ends the network: hosts whose processes have ended are gone with it. It
// may be called twice.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	errs := []error{n.hub.close()}
	for _, h := range n.hosts {
		errs = append(errs, h.namespace.close())
	}
	return errors.Join(errs...)
}

// Name is the host's name.
func (h *Host) Name() string { return h.name }

// Addr is the host's address, as "10.77.0.1".
func (h *Host) Addr() string { return h.addr }

// Do runs f on a thread of the host's namespace and returns its result: sockets
// that f makes, and processes that it starts, belong to the host for ever. That
// holds for f itself, not for goroutines that it starts.
func (h *Host) Do(f func() error) error { return h.namespace.do(f) }

// Dial connects from the host to an address with a numeric host, within 2s.
func (h *Host) Dial(network, address string) (net.Conn, error) {
	return h.DialContext(context.Background(), network, address)
}

// DialContext is Dial with a context, which may end it sooner.
func (h *Host) DialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = h.Do(func() (err error) {
		d := net.Dialer{Timeout: 2 * time.Second}
		c, err = d.DialContext(ctx, network, address)
		return err
	})
	return c, err
}
