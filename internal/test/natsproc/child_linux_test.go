package natsproc_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
)

// TestMain also plays the parent of TestChildDiesWithItsParent: it then starts a child, prints the
// child's process id, and waits to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "parent" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("sleep", "600")
	if _, err := natsproc.StartChild(cmd, nil); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(cmd.Process.Pid)
	_ = cmd.Wait()
}

// TestChildDiesWithItsParent checks that a child runs while its parent runs, and is killed when the
// parent is killed, even if the child is stopped.
func TestChildDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0], "parent")
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	release, err := natsproc.StartChild(parent, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var pid int
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if _, scan := fmt.Sscan(line, &pid); err != nil || scan != nil {
		t.Fatalf("the parent said %q: %v", line, err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed
	tick := time.Tick(time.Millisecond)
	for deadline := time.Now().Add(10 * time.Second); alive(t, pid); <-tick {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the child is still there")
		}
	}
}

// alive reports whether a process exists and is not a zombie.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// TestChildOutlivesThreads checks that a child is not killed when goroutines and threads of its
// parent end.
func TestChildOutlivesThreads(t *testing.T) {
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	release, err := natsproc.StartChild(cmd, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		ended := make(chan struct{})
		go func() {
			runtime.LockOSThread() // and no unlock: the thread ends
			close(ended)
		}()
		<-ended
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v, want by itself", err)
	}
	release()
}

func TestNoSuchProgram(t *testing.T) {
	if _, err := natsproc.StartChild(exec.Command("/no/such/program"), nil); err == nil {
		t.Error("started")
	}
}
