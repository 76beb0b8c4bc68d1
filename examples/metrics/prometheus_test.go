package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPrometheus: what Prometheus has scraped while a node was killed is what the client counted. It
// runs where Prometheus is installed.
func TestPrometheus(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed")
	}
	dir, served, asked := t.TempDir(), freeAddress(t), freeAddress(t)
	config := filepath.Join(dir, "prometheus.yaml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: shop, static_configs: [{targets: [%q]}]}]\n", served)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+asked)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()

	for deadline := time.After(time.Minute); ask(asked, "vector(1)") != 1; {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatal("Prometheus does not answer")
		}
	}

	out := &lastLine{}
	var callers, hosts, downed float64
	out.ended = func() { // the program still serves
		for deadline := time.After(20 * time.Second); ; {
			callers, hosts = ask(asked, "sum(rpc_client_call_duration_seconds_count)"), ask(asked, "sum(rpc_server_call_duration_seconds_count)")
			downed = ask(asked, `max_over_time(sum(shardgen_members)[5m:1s]) - sum(shardgen_members)`)
			counted, _, _ := strings.Cut(strings.TrimPrefix(out.text.String(), "calls="), " ")
			if want, err := strconv.ParseFloat(counted, 64); err == nil && want > 0 && callers == want && downed == 1 {
				return
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-deadline:
				return
			}
		}
	}
	if err := run(t.Context(), options{listen: served, rate: 200, lasts: 9 * time.Second, kill: 5 * time.Second}, out); err != nil {
		t.Fatal(err)
	}
	if want := out.text.String(); !strings.HasPrefix(want, fmt.Sprintf("calls=%.0f failed=0", callers)) || downed != 1 || hosts < callers {
		t.Errorf("Prometheus has %v calls and %v turns, and %v member gone; the program printed %s", callers, hosts, downed, want)
	}
}

func freeAddress(t *testing.T) string {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = free.Close() }()
	return free.Addr().String()
}

// ask returns the value of a query; -1 if there is none.
func ask(address, query string) float64 {
	response, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return -1
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Data.Result) != 1 {
		return -1
	}
	value, err := strconv.ParseFloat(fmt.Sprint(answer.Data.Result[0].Value[1]), 64)
	if err != nil {
		return -1
	}
	return value
}
