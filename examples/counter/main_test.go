package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// TestMain runs the tests, or a worker if the demonstration started this program as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		main()
	}
	os.Exit(m.Run())
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func startServer(t *testing.T) (url string) {
	t.Helper()
	s, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s.ClientURL()
}

func TestDemo(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(testContext(t), []string{"-calls", "3000", "-counters", "100", "-rate", "2000"}, nil, &stdout, &stderr)
	want := regexp.MustCompile(`^calls=3000 failed=0 wrong=0 moved=[1-9][0-9]* seconds=[0-9]+\.[0-9]\n$`)
	if code != exitOK || !want.MatchString(stdout.String()) {
		t.Errorf("exit code %d, output %q, want %d and %v\n%s", code, stdout.String(), exitOK, want, stderr.String())
	}
	for _, event := range []string{"worker-4 joins", "worker-4 is up", "worker-2 was killed", "worker-5 is up", "worker-1 leaves", "worker-1 has left"} {
		if !strings.Contains(stderr.String(), event) {
			t.Errorf("progress lacks %q:\n%s", event, stderr.String())
		}
	}
}

// TestWorkerAndCall runs a worker and calls it from outside its cluster.
func TestWorkerAndCall(t *testing.T) {
	url := startServer(t)
	ctx, leave := context.WithCancel(testContext(t))
	said, stdout := io.Pipe()
	var stderr bytes.Buffer
	code := exitWrong
	var worker sync.WaitGroup
	worker.Go(func() {
		code = run(ctx, []string{"worker", "-nats", url, "-name", "w1"}, nil, stdout, &stderr)
		_ = stdout.Close()
	})
	var heard []string
	for line := range lines(said) {
		heard = append(heard, line)
		if line != "w1 is up" {
			continue
		}
		for i, call := range []struct{ args, want string }{
			{"alice get", "0\n"},
			{"alice add 5", "5\n"},
			{"alice add -7", "-2\n"},
			{"bob.* = get", ""}, // three words: a usage error
			{"alice get", "-2\n"},
		} {
			var got, complaint bytes.Buffer
			code := run(testContext(t), append([]string{"call", "-nats", url}, strings.Fields(call.args)...), nil, &got, &complaint)
			if got.String() != call.want || (code == exitOK) != (call.want != "") {
				t.Errorf("call %d, %s: %q, exit code %d, want %q\n%s", i, call.args, got.String(), code, call.want, &complaint)
			}
		}
		leave()
	}
	worker.Wait()
	leave()
	if want := "[w1 is up w1 has left]"; code != exitOK || fmt.Sprint(heard) != want {
		t.Errorf("worker: exit code %d, output %v, want %d and %v\n%s", code, heard, exitOK, want, &stderr)
	}
}

// TestOrphan checks that a worker ends when its parent process has ended.
func TestOrphan(t *testing.T) {
	url := startServer(t)
	stdin, parent := io.Pipe()
	said, stdout := io.Pipe()
	var stderr bytes.Buffer
	code := exitOK
	var worker sync.WaitGroup
	worker.Go(func() {
		code = run(testContext(t), []string{"worker", "-nats", url, "-parent"}, stdin, stdout, &stderr)
		_ = stdout.Close()
	})
	for range lines(said) { // it is up
		_ = parent.Close()
	}
	worker.Wait()
	if code != exitWrong || !strings.Contains(stderr.String(), "is gone") {
		t.Errorf("exit code %d, want %d\n%s", code, exitWrong, &stderr)
	}
}

func TestBadCommandLines(t *testing.T) {
	tests := []struct {
		args string
		code int
		want string // part of the one line that says why
	}{
		{"count", exitUsage, `unknown command "count" (want worker, call or none)`},
		{"-bogus", exitUsage, "not defined: -bogus"},
		{"-calls many", exitUsage, `invalid value "many"`},
		{"-calls 0", exitUsage, "-calls must be at least 10"},
		{"-rate 5 more", exitUsage, `unexpected argument "more"`},
		{"worker w1", exitUsage, `unexpected argument "w1"`},
		{"call alice", exitUsage, "too few arguments"},
		{"call alice add", exitUsage, "want add N, or get"},
		{"call alice add x", exitUsage, "add x: not a whole number"},
		{"call alice get 5", exitUsage, "want add N, or get"},
		{"worker -nats http://localhost", exitWrong, "want for example nats://127.0.0.1:4222"},
		{"call -nats http://localhost alice get", exitWrong, "want for example nats://127.0.0.1:4222"},
		{"-nats http://localhost", exitWrong, "want for example nats://127.0.0.1:4222"},
		{"worker -cluster a.b", exitWrong, "Name is \"a.b\""},
		{"call -cluster * alice get", exitWrong, `cluster name "*" holds '*'`},
		{"-h", exitOK, "usage: counter"},
		{"worker -h", exitOK, "flags of worker"},
	}
	for _, tt := range tests {
		var stdout, stderr bytes.Buffer
		code := run(testContext(t), strings.Fields(tt.args), nil, &stdout, &stderr)
		if code != tt.code || !strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 {
			t.Errorf("counter %s: exit code %d, output %q, error %q; want %d and %q", tt.args, code, &stdout, &stderr, tt.code, tt.want)
		}
		if n := strings.Count(stderr.String(), "\n"); code != exitOK && n != 1 {
			t.Errorf("counter %s: says it in %d lines, want one:\n%s", tt.args, n, &stderr)
		}
	}
}

func TestOutOfReach(t *testing.T) {
	s, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url := s.ClientURL()
	s.Shutdown() // the port is free now
	var stdout, stderr bytes.Buffer
	if code := run(testContext(t), []string{"call", "-nats", url, "alice", "get"}, nil, &stdout, &stderr); code != exitWrong {
		t.Errorf("exit code %d, want %d", code, exitWrong)
	}
	if !strings.Contains(stderr.String(), "is a NATS server running there?") {
		t.Errorf("error %q names no remedy", &stderr)
	}
}
