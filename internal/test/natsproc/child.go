package natsproc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
)

// StartChild starts cmd as a child of this process. The child runs at the given place, or in this
// process's network if place is nil. On Linux the kernel kills the child with SIGKILL when this
// process has ended, for whatever reason. Call release when the child has ended. Until then one
// thread stays occupied, because the kernel kills the child when the thread that started the child
// ends.
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

// Ports are below the range that the system uses for outgoing connections: from 32768 on Linux, and
// from 49152 elsewhere.
const (
	firstPort = 10000
	blocks    = 200
	blockSize = 100
)

// ports is the block of ports from which FreeAddress takes ports. This process listens at the
// block's first port until it ends, so that no other process takes the same block.
var ports struct {
	sync.Mutex
	held  net.Listener
	first int
	given int // ports tried so far
}

// FreeAddress returns an address of the given local host, such as "127.0.0.1:12345", at which
// nobody listens now. Its port stays reserved: calls of other processes do not return the port, and
// neither do the next 98 calls of this process.
func FreeAddress(host string) (string, error) {
	ports.Lock()
	defer ports.Unlock()
	var taken error
	for try := 0; ports.held == nil && try < blocks; try++ {
		ports.first = firstPort + rand.IntN(blocks)*blockSize
		ports.held, taken = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.first)))
	}
	if ports.held == nil {
		return "", fmt.Errorf("find a free port: no block of %d ports from %d on is free: %w", blockSize, firstPort, taken)
	}
	for range blockSize - 1 {
		ports.given++
		port := ports.first + 1 + ports.given%(blockSize-1)
		address := net.JoinHostPort(host, strconv.Itoa(port))
		l, err := net.Listen("tcp", address)
		if err == nil {
			return address, l.Close()
		}
		taken = err
	}
	return "", fmt.Errorf("find a free port: %d tried: %w", blockSize-1, taken)
}
