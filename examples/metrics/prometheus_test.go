package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// asProgram is the environment variable that makes this test binary run as the program.
const asProgram = "METRICS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program starts the program as a separate process, which is killed when the test ends.
func program(t *testing.T, args ...string) (p *exec.Cmd, input io.Closer, output *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p = exec.CommandContext(t.Context(), self, args...)
	p.Env = append(os.Environ(), asProgram+"=1")
	p.Stderr = os.Stderr
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p, in, bufio.NewReader(out)
}

// A scraped cluster is a server, three nodes and a Prometheus that scrapes the nodes and the
// client. Each is a process.
type scraped struct {
	asked  string // the address of Prometheus
	broker string // its URL
	client string // the address at which the client is to serve metrics
	nodes  map[string]*exec.Cmd
}

// scrapeCluster starts a cluster. It needs an installed Prometheus.
func scrapeCluster(t *testing.T) scraped {
	t.Helper()
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed")
	}
	dir, asked := t.TempDir(), freeAddress(t)
	broker, err := embedded.Start(embedded.Options{StoreDir: filepath.Join(dir, "nats")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Shutdown)
	served := map[string]string{}
	text := "global: {scrape_interval: 1s}\nscrape_configs:\n"
	for _, name := range []string{"n1", "n2", "n3", "client"} {
		served[name] = freeAddress(t)
		text += fmt.Sprintf("- {job_name: %s, static_configs: [{targets: [%q]}]}\n", name, served[name])
	}
	config := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+asked)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	s := scraped{asked: asked, broker: broker.ClientURL(), client: served["client"], nodes: map[string]*exec.Cmd{}}
	for _, name := range []string{"n1", "n2", "n3"} {
		s.nodes[name], _, _ = program(t, "-nats", broker.ClientURL(), "-name", name, "-listen", served[name])
	}
	await(t, "three members at three nodes", func() bool { return ask(asked, "sum(shardgen_members)") == 9 })
	return s
}

// start starts a client with further arguments.
func (s scraped) start(t *testing.T, args ...string) (input io.Closer, output *bufio.Reader) {
	t.Helper()
	_, input, output = program(t, append([]string{"-nats", s.broker, "-listen", s.client}, args...)...)
	return input, output
}

// tallied reads the tally that the client prints.
func tallied(t *testing.T, output *bufio.Reader) (own *tally) {
	t.Helper()
	line, err := output.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &own); err != nil || own.Calls == 0 {
		t.Fatalf("the client printed %q: %v", line, err)
	}
	return own
}

// equal fails the test unless Prometheus has as many calls of each method and outcome as the client
// has counted.
func (s scraped) equal(t *testing.T, own *tally) {
	t.Helper()
	for name, m := range own.Methods {
		for outcome, want := range m.Outcomes {
			query := fmt.Sprintf(`sum(%s,rpc_method=%q,rpc_response_status_code=%q,error_type!="entity"})`, calls, name, outcome)
			if outcome == "refused" {
				query = fmt.Sprintf(`sum(%s,rpc_method=%q,error_type="entity"})`, calls, name)
			}
			if got := ask(s.asked, query); got != float64(want) {
				t.Errorf("Prometheus has %v calls of %s that ended %q, and the client has counted %d", got, name, outcome, want)
			}
		}
	}
}

const calls = `rpc_client_call_duration_seconds_count{job="client"`

var many = flag.Int("many", 20_000, "`calls` of TestManyCallsAreExact")

// TestManyCallsAreExact makes -many calls to three nodes. Prometheus must have as many calls of
// each method as the client counted, and as many turns at the nodes; a call whose outcome is
// unknown may have run or not. A second client then makes fewer calls while a node is killed.
// Prometheus must have the outcome of each.
func TestManyCallsAreExact(t *testing.T) {
	s := scrapeCluster(t)
	input, output := s.start(t, "-calls", fmt.Sprint(*many))
	own := tallied(t, output)
	if own.Calls != *many {
		t.Fatalf("%d calls: want %d", own.Calls, *many)
	}
	least, most := map[string]int{}, map[string]int{} // turns
	for name, m := range own.Methods {
		least[name] += m.Outcomes["executed"] + m.Outcomes["refused"]
		most[name] = least[name] + m.Outcomes["unknown"]
	}
	const bid, highest = "User/Bid", "Auction/Highest" // each bid asks an auction, unless it fails before
	least[highest] += own.Methods[bid].Outcomes["refused"]
	most[highest] += most[bid] + own.Methods[bid].Outcomes["not executed"]
	for name := range least {
		await(t, fmt.Sprintf("%d to %d turns of %s", least[name], most[name], name), func() bool {
			turns := ask(s.asked, fmt.Sprintf("sum(rpc_server_call_duration_seconds_count{rpc_method=%q})", name))
			return turns >= float64(least[name]) && turns <= float64(most[name])
		})
	}
	await(t, "the client's last calls", func() bool { return ask(s.asked, `sum(`+calls+`})`) == float64(own.Calls) })
	s.equal(t, own)
	t.Logf("%d calls, of which %d failed, as the client, the nodes and Prometheus agree", own.Calls, own.Failed)
	_ = input.Close()
	await(t, "no client", func() bool { return ask(s.asked, `up{job="client"}`) == 0 })

	input, output = s.start(t, "-calls", fmt.Sprint(max(*many/10, 20_000)), "-timeout", "150ms")
	await(t, "the client's first calls", func() bool { return ask(s.asked, `sum(`+calls+`})`) > 0 })
	if err := s.nodes["n3"].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	own = tallied(t, output)
	await(t, "the client's last calls", func() bool { return ask(s.asked, `sum(`+calls+`})`) == float64(own.Calls) })
	s.equal(t, own)
	t.Logf("%d calls, of which %d failed while a node was killed, as the client and Prometheus agree", own.Calls, own.Failed)
	_ = input.Close()
}

// TestPrometheus kills a node with SIGKILL while the client makes calls. What Prometheus has scraped
// of the client must agree with what the client counted: the calls of each method, how they ended,
// and in which buckets of the histogram their durations are.
func TestPrometheus(t *testing.T) {
	s := scrapeCluster(t)
	input, output := s.start(t, "-rate", "200", "-for", "12s", "-timeout", "150ms")
	await(t, "500 calls", func() bool { return ask(s.asked, `sum(rpc_client_call_duration_seconds_count{job="client"})`) >= 500 })
	if err := s.nodes["n3"].Process.Kill(); err != nil {
		t.Fatal(err)
	}

	own := tallied(t, output)
	await(t, "the client's last calls, and two members", func() bool {
		return ask(s.asked, `sum(`+calls+`})`) == float64(own.Calls) && ask(s.asked, "sum(shardgen_members)") == 4 && ask(s.asked, `up{job="n3"}`) == 0
	})
	s.equal(t, own)
	for name, m := range own.Methods {
		slices.Sort(m.Seconds)
		for _, q := range []float64{0.5, 0.9, 0.99} {
			compareQuantile(t, s.asked, name, q, m.Seconds[int(q*float64(len(m.Seconds)-1))])
		}
	}
	if own.Failed == 0 || own.Failed == own.Calls {
		t.Errorf("%d of %d calls have failed: want some, while the node was missed", own.Failed, own.Calls)
	}
	failed := ask(s.asked, `sum(`+calls+`,error_type!~"|entity"})`)
	if failed != float64(own.Failed) {
		t.Errorf("Prometheus has %v failed calls, and the client %d", failed, own.Failed)
	}
	t.Logf("%d calls, of which %d failed, as the client and Prometheus agree", own.Calls, own.Failed)
	_ = input.Close()
}

// compareQuantile compares a quantile of a method's durations, in seconds as the client measured
// it, with Prometheus's bucket. The client measures slightly more than its interceptor, so its
// value may be in the next bucket.
func compareQuantile(t *testing.T, asked, name string, q, own float64) {
	t.Helper()
	bounds := []float64{0}
	for _, b := range []float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1} {
		bounds = append(bounds, b, 2.5*b, 5*b)
	}
	bucket := func(v float64) int { return sort.SearchFloat64s(bounds, v) }
	got := ask(asked, fmt.Sprintf(`histogram_quantile(%v, sum by (le) (rpc_client_call_duration_seconds_bucket{job="client",rpc_method=%q}))`, q, name))
	if d := bucket(own) - bucket(got); got < 0 || d < -1 || d > 1 {
		t.Errorf("quantile %v of %s: %vs at Prometheus and %vs at the client are not in one bucket", q, name, got, own)
	}
}

// await waits at most a minute for a condition.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.After(time.Minute); !done(); {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatalf("waiting for %s: not so after a minute", what)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := natsproc.FreeAddress("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// ask returns the value of a Prometheus query, or -1 if there is none.
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
