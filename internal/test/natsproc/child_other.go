//go:build !linux

package natsproc

import "os/exec"

func dieWithParent(*exec.Cmd) {}

func awaitStopped(int) error { return nil }
