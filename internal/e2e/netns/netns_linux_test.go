package netns

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// network makes hosts "a", "b", ….
func network(t *testing.T, hosts int) (*Network, []*Host) {
	t.Helper()
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	var all []*Host
	for i := range hosts {
		h, err := n.Add(string(rune('a' + i)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return n, all
}

// hear listens at a new address of a host. heard gets the text of each datagram that arrives there.
func hear(t *testing.T, h *Host) (address string, heard <-chan string) {
	t.Helper()
	var c net.PacketConn
	err := h.Do(func() (err error) {
		c, err = net.ListenPacket("udp4", h.Addr()+":0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	all := make(chan string, 4096)
	go func() { // ends when c is closed
		for b := make([]byte, 100); ; {
			n, _, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			all <- string(b[:n])
		}
	}()
	return c.LocalAddr().String(), all
}

func send(t *testing.T, from *Host, address string, messages ...string) {
	t.Helper()
	c, err := from.Dial("udp4", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for _, m := range messages {
		if _, err := io.WriteString(c, m); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDropOneWay: a cut drops packets in one direction only, until it is healed.
func TestDropOneWay(t *testing.T) {
	n, hosts := network(t, 3)
	a, b, c := hosts[0], hosts[1], hosts[2]
	atA, heardA := hear(t, a)
	atB, heardB := hear(t, b)
	expect := func(heard <-chan string, want string) {
		t.Helper()
		select {
		case got := <-heard:
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		case <-t.Context().Done():
			t.Fatalf("nothing came, want %q", want)
		}
	}
	if err := n.Drop(Rule{From: []*Host{a}, To: []*Host{b}}); err != nil {
		t.Fatal(err)
	}
	send(t, a, atB, "cut 1", "cut 2")
	send(t, c, atB, "from c")
	expect(heardB, "from c") // the bridge keeps order of what it forwards
	send(t, b, atA, "back")
	expect(heardA, "back")
	awaitDropped(t, n, 2, 2)
	if err := n.Drop(); err != nil {
		t.Fatal(err)
	}
	send(t, a, atB, "healed")
	expect(heardB, "healed")
}

// TestDropPercent: loss drops its share of the packets at random.
func TestDropPercent(t *testing.T) {
	n, hosts := network(t, 2)
	at, _ := hear(t, hosts[1])
	if err := n.Drop(Rule{From: hosts[:1], To: hosts[1:], Percent: 30}); err != nil {
		t.Fatal(err)
	}
	const sent = 2000
	send(t, hosts[0], at, strings.Split(strings.Repeat("x", sent), "")...)
	awaitDropped(t, n, sent/5, 2*sent/5)
}

// awaitDropped waits until the number of dropped packets is least or more. It fails the test if the
// number exceeds most.
func awaitDropped(t *testing.T, n *Network, least, most int) {
	t.Helper()
	tick := time.Tick(time.Millisecond)
	for deadline := time.Now().Add(10 * time.Second); ; <-tick {
		dropped, err := n.Dropped()
		switch {
		case err != nil:
			t.Fatal(err)
		case dropped >= least && dropped <= most:
			return
		case dropped > most || time.Now().After(deadline):
			t.Fatalf("dropped %d packets, want %d to %d", dropped, least, most)
		}
	}
}

// TestProcess: a process that a host starts has the host's network. This process does not.
func TestProcess(t *testing.T) {
	_, hosts := network(t, 1)
	var links []byte
	err := hosts[0].Do(func() (err error) {
		links, err = exec.Command("ip", "-brief", "-4", "address").Output()
		return err
	})
	if err != nil || !strings.Contains(string(links), hosts[0].Addr()+"/24") {
		t.Errorf("it has %q (%v), want %s", links, err, hosts[0].Addr())
	}
	out, err := exec.Command("ip", "-brief", "-4", "address").Output()
	if err != nil || strings.Contains(string(out), hosts[0].Addr()) {
		t.Errorf("this process has %q (%v), want nothing of the hosts", out, err)
	}
}

// TestCloseLeavesNothing: when a network is closed and its processes have ended, nothing of it is
// left.
func TestCloseLeavesNothing(t *testing.T) {
	n, hosts := network(t, 1)
	id := func(path string) uint64 {
		var s syscall.Stat_t
		if err := syscall.Stat(path, &s); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return s.Ino
	}
	ids := map[uint64]bool{id(n.hub.path()): true, id(hosts[0].namespace.path()): true}
	held := func() (who []string) {
		processes, err := os.ReadDir("/proc")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range processes {
			var s syscall.Stat_t
			path := fmt.Sprintf("/proc/%s/ns/net", p.Name())
			if syscall.Stat(path, &s) == nil && ids[s.Ino] {
				who = append(who, path)
			}
		}
		return who
	}
	process := exec.Command("sleep", "60")
	if err := hosts[0].Do(process.Start); err != nil {
		t.Fatal(err)
	}
	if who := held(); len(who) != 1 {
		t.Errorf("held by %v, want the one process", who)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait() // an error, because it was killed
	tick, deadline := time.Tick(time.Millisecond), time.Now().Add(10*time.Second)
	for who := held(); len(who) > 0; who = held() {
		if time.Now().After(deadline) {
			t.Fatalf("still held by %v", who)
		}
		<-tick
	}
}

func TestBadRules(t *testing.T) {
	h := []*Host{{addr: "10.77.0.1"}}
	for _, r := range []Rule{{}, {From: h}, {To: h}, {From: h, To: h, Percent: 101}, {From: h, To: h, Percent: -1}} {
		if text, err := ruleset([]Rule{r}); err == nil {
			t.Errorf("%+v: got\n%s\nwant an error", r, text)
		}
	}
}
