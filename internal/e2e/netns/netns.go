// Package netns makes networks of Linux network namespaces, in which packets can be dropped:
// partitions, one-way cuts and loss between real processes.
//
// A [Network] is a bridge in a namespace of its own. Each [Host] is a namespace with one address,
// connected to the bridge. nftables rules of the bridge drop packets, so that all rules are in one
// place and are replaced together. The network cannot be reached from outside, and nothing outside
// is changed.
//
// The namespaces have no names. This process and the processes that run in them hold them open, and
// the kernel removes a namespace when the last of these processes has ended. A run that was killed
// therefore leaves nothing behind.
//
// The package needs root, iproute2 and nftables; [Supported] reports which of them is missing.
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

// maxHosts bounds the hosts, because their addresses differ in the last byte.
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
	// Percent is the percentage of packets that are dropped at random. 0 means that all packets are
	// dropped.
	Percent int
}

// New makes a network without hosts. It fails with the error of [Supported] where namespaces cannot
// be made. The caller must Close the network.
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

// Add makes a host. name identifies it in messages.
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

// Hosts returns all hosts in the order in which they were added.
func (n *Network) Hosts() []*Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.hosts)
}

// Drop replaces all rules by the given ones, atomically between two packets. A packet is dropped if
// any rule drops it. Without rules no packet is dropped.
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

// Dropped returns the number of packets that the present rules have dropped.
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

// ruleset formats rules as input for nft, after a command that removes all earlier rules.
func ruleset(rules []Rule) (string, error) {
	var b strings.Builder
	b.WriteString("add table bridge fault\ndelete table bridge fault\ntable bridge fault {\n\tchain forward {\n\t\ttype filter hook forward priority 0;\n")
	for _, r := range rules {
		if len(r.From) == 0 || len(r.To) == 0 {
			return "", errors.New("drop packets: a rule needs hosts in both From and To")
		}
		if r.Percent < 0 || r.Percent > 100 {
			return "", fmt.Errorf("Rule.Percent is %d: want 0 to 100", r.Percent)
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

// Close closes the network. A host is gone when its processes have ended. Close may be called
// twice.
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

func (h *Host) Name() string { return h.name }

// Addr returns the host's IP address, such as "10.77.0.1".
func (h *Host) Addr() string { return h.addr }

// Do runs f on a thread in the host's namespace and returns f's error. Sockets made and processes
// started by f stay at the host. Goroutines that f starts do not run in the namespace.
func (h *Host) Do(f func() error) error { return h.namespace.do(f) }

// Dial connects from the host to an address with a numeric host. It takes at most 2s.
func (h *Host) Dial(network, address string) (net.Conn, error) {
	return h.DialContext(context.Background(), network, address)
}

// DialContext does the same as Dial, and also ends with ctx.
func (h *Host) DialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = h.Do(func() (err error) {
		d := net.Dialer{Timeout: 2 * time.Second}
		c, err = d.DialContext(ctx, network, address)
		return err
	})
	return c, err
}
