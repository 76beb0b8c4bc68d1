package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain also runs as the child process of the tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		child(os.Args[2:])
	}
	os.Exit(m.Run())
}

// child does what its arguments say, in order.
func child(args []string) {
	for _, arg := range args {
		switch arg {
		case "up", "left":
			fmt.Printf("{\"event\":%q}\n", arg)
		case "fail":
			fmt.Println(`{"event":"ended","error":"out of luck"}`)
			os.Exit(3)
		case "wait":
			_, _ = io.Copy(io.Discard, os.Stdin)
		default:
			fmt.Println(arg)
		}
	}
	os.Exit(0)
}

func start(t *testing.T, args ...string) *Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start("child", os.Stderr, program, append([]string{"child"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAwait(t *testing.T) {
	p := start(t, "not JSON", "up", "wait")
	for range 2 { // a second wait for the same event returns at once
		if err := p.Await(testContext(t), "up"); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithCancelCause(testContext(t))
	cancel(errors.New("enough"))
	if err := p.Await(short, "left"); err == nil || !strings.Contains(err.Error(), "wait for child to be left: enough") {
		t.Errorf("error %v, want the cause of the context's end", err)
	}
	if err := p.AwaitEnd(short); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("error %v, want the cause of the context's end", err)
	}
	select {
	case <-p.Done():
		t.Error("it ended")
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitEnd(testContext(t)); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("error %v, want the signal in it", err)
	}
}

func TestEnd(t *testing.T) {
	tests := []struct {
		args string
		want string // of AwaitEnd; "" means none
	}{
		{"up left", ""},
		{"up fail", "child: exit status 3: out of luck"},
	}
	for _, tt := range tests {
		p := start(t, strings.Fields(tt.args)...)
		got := ""
		if err := p.AwaitEnd(testContext(t)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
		if err := p.Await(testContext(t), "up"); err != nil {
			t.Errorf("%s: what it said is forgotten: %v", tt.args, err)
		}
		if err := p.Await(testContext(t), "never"); err == nil {
			t.Errorf("%s: waited for an event of an ended process without an error", tt.args)
		}
	}
}

func TestKill(t *testing.T) {
	p := start(t, "up", "wait")
	for range 2 {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-p.Done():
	default:
		t.Error("killed and not done")
	}
}

func TestNoProgram(t *testing.T) {
	if _, err := Start("child", os.Stderr, t.TempDir()+"/none"); err == nil || !strings.Contains(err.Error(), "start child") {
		t.Errorf("error %v, want start child in it", err)
	}
}
