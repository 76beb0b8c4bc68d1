// Package childproc starts processes that, on Linux, never outlive their parent.
package childproc

import (
	"os/exec"
	"runtime"
)

// A Place is another network in which a process can be started. Do runs f on a thread of the
// place.
type Place interface {
	Do(f func() error) error
}

// Start starts cmd at a place. With a nil place it runs in this process's network. On Linux
// the process gets SIGKILL when this one has ended, however that ended. Call release when the
// process has ended: until then Start keeps a thread, because the kernel takes the end of that
// thread for the end of this process.
func Start(cmd *exec.Cmd, place Place) (release func(), err error) {
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
