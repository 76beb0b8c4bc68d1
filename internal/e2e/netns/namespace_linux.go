//go:build linux && (amd64 || arm64)

package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// Supported returns nil if networks can be made on this machine, or an error that names what is
// missing.
func Supported() error { return supported() }

var supported = sync.OnceValue(func() error {
	const why = "network namespaces cannot be made here: "
	if os.Geteuid() != 0 {
		return errors.New(why + "root is required")
	}
	for tool, of := range map[string]string{"ip": "iproute2", "nft": "nftables"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf(why+"%s is missing (install %s)", tool, of)
		}
	}
	s, err := newNamespace()
	if err != nil {
		return fmt.Errorf(why+"%w", err)
	}
	text, err := ruleset([]Rule{{From: []*Host{{addr: "10.77.0.1"}}, To: []*Host{{addr: "10.77.0.2"}}, Percent: 50}})
	if err == nil {
		err = s.run(text, "nft", "-f", "-") // the kernel may lack nftables for bridges, or random matches
	}
	if err = errors.Join(err, s.close()); err != nil {
		return fmt.Errorf(why+"%w", err)
	}
	return nil
})

// A namespace is a network namespace, kept alive by an open file.
type namespace struct{ file *os.File }

// newNamespace makes a namespace on a thread that ends afterwards.
func newNamespace() (*namespace, error) {
	var s namespace
	err := onThread(func() (err error) {
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare the network: %w", err)
		}
		s.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return &s, err
}

// onThread runs f on a thread of its own.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() { // the caller waits for it
		runtime.LockOSThread() // and no unlock: the thread ends with the goroutine
		result <- f()
	}()
	return <-result
}

func (s *namespace) do(f func() error) error {
	return onThread(func() error {
		if _, _, errno := syscall.RawSyscall(sysSetns, s.file.Fd(), syscall.CLONE_NEWNET, 0); errno != 0 {
			return fmt.Errorf("enter a network namespace: %w", errno)
		}
		return f()
	})
}

// path returns the path by which other processes open the namespace. It is valid while this process
// keeps the namespace open.
func (s *namespace) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.file.Fd()) }

func (s *namespace) close() error { return s.file.Close() }

func (s *namespace) run(stdin, program string, args ...string) error {
	_, err := s.output(stdin, program, args...)
	return err
}

func (s *namespace) output(stdin, program string, args ...string) (text string, err error) {
	err = s.do(func() error {
		var stdout, stderr strings.Builder
		cmd := exec.Command(program, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
		err := cmd.Run()
		text = stdout.String()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(stderr.String()))
		}
		return nil
	})
	return text, err
}
