package natsproc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"runtime"
	"strconv"
)

// StartChild starts cmd at a place; nil is this process's network. On Linux the kernel kills the
// started process with SIGKILL when this process has ended, for whatever reason. Call release when
// the started process has ended. Until then a thread is occupied, because the kernel kills the
// child when the thread that started it ends.
func StartChild(cmd *exec.Cmd, place Place) (release func(), err error) {
	dieWithParent(cmd)
	started, released := make(chan error, 1), make(chan struct{})
	run := func() error {
		err := cmd.Start()
		started <- err
		if err == nil {
			<-released
		}
		return nil
	}
	go func() { // ends with release
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if place == nil {
			_ = run() // it says its error to started
			return
		}
		if err := place.Do(run); err != nil {
			started <- err
		}
	}()
	return func() { close(released) }, <-started
}

// FreeAddress chooses ports below the range of outgoing connections, from 32768 on Linux and 49152
// elsewhere, which other programs' connections may take.
const (
	firstPort = 10000
	endPort   = 30000

	portAttempts = 100
)

// FreeAddress returns an address of a local host, such as "127.0.0.1:12345", at which nobody
// listens now. Two calls return the same address with a probability of 1 in 20,000.
func FreeAddress(host string) (string, error) {
	var taken error
	for range portAttempts {
		address := net.JoinHostPort(host, strconv.Itoa(firstPort+rand.IntN(endPort-firstPort)))
		l, err := net.Listen("tcp", address)
		if err == nil {
			return address, l.Close()
		}
		taken = err
	}
	return "", fmt.Errorf("find a free port: %d of %d to %d tried: %w", portAttempts, firstPort, endPort-1, taken)
}
