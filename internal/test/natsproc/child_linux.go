package natsproc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// awaitStopped waits at most 10s for all threads to stand still after SIGSTOP: a busy thread goes
// on briefly.
func awaitStopped(pid int) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		moving := len(threads) == 0
		for _, t := range threads {
			stat, err := os.ReadFile(t)
			state := bytes.LastIndexByte(stat, ')') + 2 // behind the command's name, which may have spaces
			moving = moving || err == nil && stat[state] != 'T'
		}
		if !moving {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("process %d has not stopped 10s after SIGSTOP", pid)
		}
	}
}
