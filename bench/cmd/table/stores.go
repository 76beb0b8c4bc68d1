package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
)

type jetStreamServers struct {
	url     string
	servers []*natsproc.Server
}

func storeServers(folder string, n int) (*jetStreamServers, error) {
	if n == 1 {
		server, err := natsproc.Run("-js", "-sd", folder)
		if err != nil {
			return nil, err
		}
		return &jetStreamServers{server.URL(), []*natsproc.Server{server}}, nil
	}
	var folders []string
	for i := range n {
		folders = append(folders, filepath.Join(folder, strconv.Itoa(i)))
	}
	servers, err := natsproc.RunStores(folders...)
	if err != nil {
		return nil, err
	}
	return &jetStreamServers{servers[0].URL(), servers}, nil
}

func (s *jetStreamServers) stop() {
	for _, server := range s.servers {
		_ = server.Kill()
	}
}

func (s *jetStreamServers) counted(c contestant) contestant {
	return contestant{c.name, func(d time.Duration) (measure, error) {
		before, err := s.cpuTime()
		if err != nil {
			return measure{}, err
		}
		m, err := c.run(d)
		if err != nil {
			return m, err
		}
		after, err := s.cpuTime()
		if n := m.Calls + m.Warm; n > 0 {
			m.Servers = (after - before) / time.Duration(n)
		}
		return m, err
	}}
}

func (s *jetStreamServers) cpuTime() (sum time.Duration, err error) {
	for _, server := range s.servers {
		used, err := processTime(server.Pid())
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

func processTime(pid int) (sum time.Duration, err error) {
	const tick = 10 * time.Millisecond // of /proc, on every Linux
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name may contain spaces
	fields := strings.Fields(rest)
	for _, field := range fields[11:13] { // utime and stime
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}

func resident(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kib << 10, err
}
