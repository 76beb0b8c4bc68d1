package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// Command is the first argument of a program that runs as a member.
const Command = "member"

const clusterName = "siege"

// RunMember runs a member until stdin closes. args has the server's URL and the member's name. For
// each line in stdin, RunMember returns unused memory to the system, and then prints the member's
// state to stdout.
func RunMember(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	n := shard.New(shard.Config{
		Cluster: clusterName, Name: args[1], Transport: natstransport.New(args[0]), Gateway: true,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	// Calls of the method Hold wait until their deadline.
	probe := &fixture.Probe{Entered: make(chan string), Release: make(chan struct{})}
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		for {
			select {
			case <-probe.Entered:
			case <-ctx.Done():
				return
			}
		}
	})
	if err := fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{Probe: probe} }); err != nil {
		return err
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = n.Close() }()
	report := json.NewEncoder(stdout)
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		runtime.GC() // a sync.Pool loses its content in the second collection
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		state := State{Heap: m.HeapAlloc, Goroutines: runtime.NumGoroutine(), Counters: n.Counters()}
		if err := n.Err(); err != nil {
			state.Error = err.Error()
		}
		if err := report.Encode(state); err != nil {
			return err
		}
	}
	return nil
}

// A State is a member's report, with the kernel's figures about its process.
type State struct {
	Heap       uint64 // bytes in use
	RSS, Peak  int    // bytes, as the kernel has them
	Goroutines int
	Counters   map[string]uint64
	Error      string // why the member ended
}

type process struct {
	name    string
	cmd     *exec.Cmd
	release func()
	stdin   io.WriteCloser
	reports *json.Decoder
}

func startProcess(url, name string, log io.Writer) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: exec.Command(self, Command, url, name)}
	p.cmd.Stderr = log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.reports = json.NewDecoder(stdout)
	if p.release, err = natsproc.StartChild(p.cmd, nil); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) state() (s State, err error) {
	if _, err = io.WriteString(p.stdin, "\n"); err == nil {
		err = p.reports.Decode(&s)
	}
	if err == nil && s.Error != "" {
		err = fmt.Errorf("the node has ended: %s", s.Error)
	}
	if err != nil {
		return s, fmt.Errorf("member %s: %w", p.name, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(status)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		kB, _ := strconv.Atoi(words[1])
		switch words[0] {
		case "VmRSS:":
			s.RSS = kB << 10
		case "VmHWM:":
			s.Peak = kB << 10
		}
	}
	return s, nil
}

func (p *process) end() {
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
	p.release()
}

// Password is the password of every user of Guard's server.
const Password = "secret"

// Guard starts a NATS server with JetStream, whose files are in dir. Each user has only the given
// rights.
func Guard(dir string, users map[string]rights.Rights) (*natsproc.Server, error) {
	if err := Configure(dir, users); err != nil {
		return nil, err
	}
	return natsproc.Run("-c", configIn(dir))
}

// Configure writes the configuration of Guard's server. The server reads it at its start and at
// [natsproc.Server.Reload].
func Configure(dir string, users map[string]rights.Rights) error {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q }\nauthorization { users: [\n", filepath.Join(dir, "jetstream"))
	for _, user := range slices.Sorted(maps.Keys(users)) {
		fmt.Fprintf(&b, "{ user: %s, password: %s, %s }\n", user, Password, users[user].Server())
	}
	b.WriteString("] }\n")
	return os.WriteFile(configIn(dir), []byte(b.String()), 0o600)
}

func configIn(dir string) string { return filepath.Join(dir, "nats.conf") }

// URL returns the URL with which a user connects to the server.
func URL(s *natsproc.Server, user string) string {
	return "nats://" + user + ":" + Password + "@" + strings.TrimPrefix(s.URL(), "nats://")
}
