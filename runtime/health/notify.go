package health

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
)

// Notify reports the health of a node to systemd, for a unit with Type=notify:
//
//   - READY=1 when the node is ready for the first time;
//   - STATUS= with the first of the health's reasons, or "ready" if there is none, whenever this
//     text changes;
//   - WATCHDOG=1 while the node is live, at least three times in each WatchdogSec, if the unit has
//     that setting. Give WatchdogSec at least 10s: systemd kills a process that is silent for
//     longer;
//   - STOPPING=1 when the node begins to leave or has ended, or when ctx ends. Notify then returns,
//     because the watchdog does not count while a service stops.
//
// check is node.Health. Without NOTIFY_SOCKET in the environment Notify returns nil at once. It
// returns an error only if the socket cannot be used. The protocol is that of sd_notify(3).
func Notify(ctx context.Context, check func() shard.Health) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	if strings.HasPrefix(name, "@") { // the abstract namespace
		name = "\x00" + name[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer func() { _ = conn.Close() }()
	n := notifier{check: check, send: func(text string) error {
		_, err := conn.Write([]byte(text))
		return err
	}}
	n.watchdog = watchdog()
	if err := n.run(ctx); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// look is the longest time between two checks.
const look = 500 * time.Millisecond

// watchdog returns the WatchdogSec of the systemd unit; 0 means none.
func watchdog() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

type notifier struct {
	check    func() shard.Health
	send     func(text string) error
	watchdog time.Duration // 0: none
	ready    bool          // READY=1 was sent
	status   string        // the last STATUS sent
}

func (n *notifier) run(ctx context.Context) error {
	every := look
	if n.watchdog > 0 {
		every = min(look, n.watchdog/3)
	}
	ticker := time.NewTicker(max(every, time.Millisecond))
	defer ticker.Stop()
	for {
		h := n.check()
		if text := n.news(h); text != "" {
			if err := n.send(text); err != nil {
				return err
			}
		}
		if h.Ending {
			return n.send("STOPPING=1")
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return n.send("STOPPING=1")
		}
	}
}

func (n *notifier) news(h shard.Health) string {
	var lines []string
	if h.Ready && !n.ready {
		n.ready = true
		lines = append(lines, "READY=1")
	}
	status := "ready"
	if len(h.Reasons) > 0 {
		status = strings.ReplaceAll(h.Reasons[0], "\n", "; ")
	}
	if status != n.status {
		n.status = status
		lines = append(lines, "STATUS="+status)
	}
	if n.watchdog > 0 && h.Live {
		lines = append(lines, "WATCHDOG=1")
	}
	return strings.Join(lines, "\n")
}
