// Package process controls processes that report their events as JSON lines on standard
// output.
package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
)

// A Process is a child process. If this process ends in any way, the child gets SIGKILL on Linux;
// elsewhere its standard input closes, and it should end by itself. All methods are safe for
// concurrent use.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; read after done

	stdin   io.Writer
	release func()

	mu      sync.Mutex
	said    []Event
	changed chan struct{} // closed and made anew at each event and at the end
}

// An Event is one line of a process's standard output.
type Event struct {
	Event string `json:"event"`
	Node  string `json:"node"`
	Pid   int    `json:"pid"`
	Error string `json:"error,omitempty"`
	// Kind, Member and Time belong to some events: what was observed, its subject, and when.
	Kind   string    `json:"kind,omitempty"`
	Member string    `json:"member,omitempty"`
	Time   time.Time `json:"time,omitzero"`
	// View is the cluster as the node saw it then, if all members agreed: its founder and its
	// members. It is "" if they did not agree.
	View string `json:"view,omitempty"`
	// Question is the number of a request for Frames and Direct.
	Question int    `json:"question,omitempty"`
	Frames   uint64 `json:"frames,omitempty"` // data frames that the node has sent
	Direct   uint64 `json:"direct,omitempty"` // those of them that took direct lanes
}

// Start runs a program. name identifies the process in messages; logs gets its standard error.
func Start(name string, logs io.Writer, program string, args ...string) (*Process, error) {
	return StartAt(nil, name, logs, program, args...)
}

// StartAt does the same as Start on a host of another network; a nil place is this host.
func StartAt(place natsproc.Place, name string, logs io.Writer, program string, args ...string) (*Process, error) {
	cmd := exec.Command(program, args...)
	cmd.Stderr = logs
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	release, err := natsproc.StartChild(cmd, place)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{
		name: name, cmd: cmd, stdin: stdin, release: release,
		done: make(chan struct{}), changed: make(chan struct{}),
	}
	go p.listen(stdout) // Kill waits for it
	return p, nil
}

func (p *Process) listen(stdout io.Reader) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = Event{Event: "noise", Error: lines.Text()}
		}
		p.change(func() { p.said = append(p.said, e) })
	}
	err := p.cmd.Wait()
	p.release()
	p.change(func() {
		p.err = err
		close(p.done)
	})
}

func (p *Process) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Process) Name() string { return p.name }

func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Said returns the events of the process so far.
func (p *Process) Said() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said)
}

// Await waits until the process has printed an event with the given name. It returns an error if
// the process ends before that.
func (p *Process) Await(ctx context.Context, event string) error {
	_, err := p.AwaitThat(ctx, "to be "+event, func(e Event) bool { return e.Event == event })
	return err
}

// AwaitThat returns the first event of the process for which that(event) is true. If the process
// has not printed such an event yet, AwaitThat waits for it. It returns an error if the process
// ends before that. what describes the event in errors.
func (p *Process) AwaitThat(ctx context.Context, what string, that func(Event) bool) (Event, error) {
	for {
		p.mu.Lock()
		changed, i := p.changed, slices.IndexFunc(p.said, that)
		var found Event
		if i >= 0 {
			found = p.said[i]
		}
		p.mu.Unlock()
		if i >= 0 {
			return found, nil
		}
		select {
		case <-p.done:
			return Event{}, fmt.Errorf("wait for %s %s: %w", p.name, what, p.ended())
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("wait for %s %s: %w", p.name, what, context.Cause(ctx))
		}
	}
}

// AwaitEnd waits until the process has ended, and returns nil if it exited with 0.
func (p *Process) AwaitEnd(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to end: %w", p.name, context.Cause(ctx))
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.name, p.ended())
	}
	return nil
}

// ended describes how the process exited, or returns nil after status 0.
func (p *Process) ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	how := errors.New("the process exited with status 0")
	if p.err != nil {
		how = p.err
	}
	if n := len(p.said); n > 0 && p.said[n-1].Error != "" {
		return fmt.Errorf("%w: %s", how, p.said[n-1].Error)
	}
	return how
}

// Write writes to the standard input of the process.
func (p *Process) Write(b []byte) (int, error) { return p.stdin.Write(b) }

// Signal sends a signal: SIGTERM to leave, SIGSTOP to pause, SIGCONT to go on.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %v: %w", p.name, s, err)
	}
	return nil
}

// Kill ends the process with SIGKILL and returns when it has ended. If the process has ended
// before, Kill does nothing.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}
