// Package cgroup limits how much processor time a process gets, by a control group
// of Linux: the controller cpu of version 1, or of version 2 where that is mounted
// at /sys/fs/cgroup. It needs root; [Supported] returns an error that names missing rights or files.
//
// A group's name has the id of the process that made it. Groups left behind by a killed process are
// removed by the next process that makes a group.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// roots are where control groups of the cpu controller may be, in the order tried.
var roots = []root{
	{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", ""},
	{"/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", ""},
	{"/sys/fs/cgroup", "cpu.max", "cgroup.subtree_control"},
}

type root struct {
	dir     string
	limit   string // the file in a group that has its limit
	control string // the file in dir that turns the controller on for groups; "" means none
}

const prefix = "shardgen-e2e-"

// period is the accounting period. After Limit(20), a group runs 20 ms per period.
const period = 100 * time.Millisecond

// A Group is a control group whose processes share a limit. Its methods must not be called
// concurrently.
type Group struct {
	root root
	dir  string
}

// Supported returns nil if groups can be made on this machine, or an error that names what is
// missing.
func Supported() error {
	g, err := New()
	if err != nil {
		return err
	}
	return g.Close()
}

var groups atomic.Int64

// New makes a group without processes and without a limit. The caller must Close it.
func New() (*Group, error) {
	const why = "processor time cannot be limited here: "
	if os.Geteuid() != 0 {
		return nil, errors.New(why + "root on Linux is required")
	}
	var failed error
	for _, r := range roots {
		if r.control != "" {
			// The write fails if there is no controller. The test below shows that.
			_ = os.WriteFile(filepath.Join(r.dir, r.control), []byte("+cpu"), 0)
		}
		r.sweep()
		dir := filepath.Join(r.dir, fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), groups.Add(1)))
		if err := os.Mkdir(dir, 0o755); err != nil {
			failed = err
			continue
		}
		g := &Group{r, dir}
		_, err := os.Stat(filepath.Join(dir, r.limit))
		if err == nil {
			return g, nil
		}
		failed = errors.Join(err, g.Close())
	}
	return nil, fmt.Errorf(why+"the cpu controller of control groups is missing (%w)", failed)
}

func (r root) sweep() {
	left, _ := filepath.Glob(filepath.Join(r.dir, prefix+"*"))
	for _, dir := range left {
		id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if pid, err := strconv.Atoi(id); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.Remove(dir)
		}
	}
}

// Limit bounds what all processes of the group together use of one core. percent is at least 1.
func (g *Group) Limit(percent int) error {
	quota := int(period.Microseconds()) * percent / 100
	text := strconv.Itoa(quota)
	if g.root.limit == "cpu.max" {
		text = fmt.Sprintf("%d %d", quota, period.Microseconds())
	} else if err := g.write("cpu.cfs_period_us", strconv.Itoa(int(period.Microseconds()))); err != nil {
		return err
	}
	return g.write(g.root.limit, text)
}

func (g *Group) Add(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

// Throttled counts periods of 100ms: of is the number in which the group's processes ran at all,
// and throttled the number in which the limit stopped them.
func (g *Group) Throttled() (throttled, of int, err error) {
	stat, err := os.ReadFile(filepath.Join(g.dir, "cpu.stat"))
	if err != nil {
		return 0, 0, fmt.Errorf("control group: %w", err)
	}
	for line := range strings.Lines(string(stat)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "nr_periods":
			of, err = strconv.Atoi(number)
		case "nr_throttled":
			throttled, err = strconv.Atoi(number)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("control group: %s: %w", name, err)
		}
	}
	return throttled, of, nil
}

func (g *Group) write(file, text string) error {
	if err := os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0); err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	return nil
}

const closeTimeout = 5 * time.Second

// Close moves the group's processes to the controller's root, which has no limit, and removes the
// group. It may be called twice.
func (g *Group) Close() error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for begin := time.Now(); ; <-look.C {
		// The read fails if the group is gone. Remove reports that too.
		pids, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(pids)) {
			// The write fails for a process that has ended meanwhile.
			_ = os.WriteFile(filepath.Join(g.root.dir, "cgroup.procs"), []byte(pid), 0)
		}
		err := os.Remove(g.dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if time.Since(begin) > closeTimeout {
			return fmt.Errorf("control group: %w", err)
		}
	}
}
