package natsproc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"runtime"
	"strconv"
)

// StartChild starts cmd at a place. With a nil place it runs in this process's network. On Linux
// the process gets SIGKILL when this one has ended, however that ended. Call release when the
// process has ended: until then StartChild keeps a thread, because the kernel takes the end of that
// thread for the end of this process.
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

// The ports that FreeAddress chooses from lie below those that systems give to connections
// (from 32768 on Linux, from 49152 elsewhere): a port of theirs is taken by any program
// that connects, before its server listens or while its server is down.
const (
	firstPort = 10000
	endPort   = 30000

	portAttempts = 100
)

// FreeAddress returns an address of a local host, "127.0.0.1:12345", where nobody listens now.
// Different calls return different addresses, but for one chance in 20,000.
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
