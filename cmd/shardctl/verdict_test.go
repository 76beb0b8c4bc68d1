package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/proxy"
	"github.com/shardgen/shardgen/internal/e2e/wallclock"
	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/internal/util/tasks"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/health"
	"github.com/shardgen/shardgen/runtime/membership"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

const (
	// judgedVar makes TestMain run a member of that name, with defaults for everything. It serves
	// probes, until its stdin ends.
	judgedVar   = "SHARDCTL_TEST_JUDGED"
	replicasVar = "SHARDCTL_TEST_REPLICAS"
	// tableVar is the URL of the server that has the membership table; without it the members gossip.
	tableVar = "SHARDCTL_TEST_TABLE"
	// doctorsVar is how often doctor is asked about a healthy cluster.
	doctorsVar = "SHARDCTL_TEST_DOCTORS"
	// faultVar is a part of the names of the faults to cause. lastsVar is how long each lasts after
	// all judges have found it.
	faultVar, lastsVar = "SHARDCTL_TEST_FAULT", "SHARDCTL_TEST_LASTS"
	// programVar is the path of the program that members run.
	programVar = "SHARDCTL_TEST_PROGRAM"
)

func beJudged(name string) error {
	url := os.Getenv("NATS_URL")
	replicas := 1
	if os.Getenv(replicasVar) != "" {
		replicas = 3
	}
	store, err := natsstore.Open(context.Background(), url, natsstore.Config{Replicas: replicas, Partitions: 1})
	if err != nil {
		return err
	}
	defer store.Close()
	agree := membership.Options{MinMembers: 2}
	if at := os.Getenv(tableVar); at != "" {
		table, err := natsstore.Open(context.Background(), at, natsstore.Config{})
		if err != nil {
			return err
		}
		defer table.Close()
		agree.Table.Store = table
	}
	n := shard.New(shard.Config{
		Cluster: "shop", Name: name, Transport: transportOf(map[string]string{"NATS_URL": url}), Store: store, Membership: agree,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	probe := &fixture.Probe{Entered: make(chan string, 1000)}
	if err := fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{Probe: probe} }, shard.MaxMailboxCalls(8)); err != nil {
		return err
	}
	if err := bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(listener, health.Handler(n.Health)) }()
	fmt.Printf("http://%s\n", listener.Addr())
	if err := n.Start(context.Background()); err != nil {
		return err
	}
	fmt.Println("up")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); { // how wrong the wall clock is to be
		wrong, err := time.ParseDuration(lines.Text())
		if err = errors.Join(err, wallclock.Shift(wrong)); err != nil {
			return err
		}
	}
	return n.Close()
}

// judged is a member's process.
type judged struct {
	*os.Process
	stdin  io.Writer
	probes string
	log    *faultLog
}

// A faultLog has the warnings that a process has logged since forget was called, and the number of
// faults that have not ended.
type faultLog struct {
	mu    sync.Mutex
	open  int
	lines []string
}

func (l *faultLog) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := lines.Text()
		l.mu.Lock()
		switch {
		case strings.Contains(line, `msg="fault found"`):
			l.open++
		case strings.Contains(line, `msg="fault has ended"`):
			l.open--
		}
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			l.lines = append(l.lines, line)
		}
		l.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, from) // after a line that is too long
}

func (l *faultLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = nil
}

// text returns the warnings if a fault has not ended, or if evenEnded is true.
func (l *faultLog) text(evenEnded bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == 0 && !evenEnded {
		return ""
	}
	return strings.Join(l.lines, "\n") + "\n"
}

// A judgedCluster is three members, with all judges of their health.
type judgedCluster struct {
	t         *testing.T
	env       map[string]string
	table     string       // the URL of its membership table; "" means that the members gossip
	cut       *proxy.Proxy // between n3 and the broker; may be nil
	servers   []*natsproc.Server
	dashboard string
	client    *shard.Conn
	quiet     atomic.Bool // nobody writes
	struck    atomic.Bool // a fault has begun, and not ended

	mu      sync.Mutex
	members map[string]*judged
}

func startJudged(t *testing.T, table string, servers ...*natsproc.Server) *judgedCluster {
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	c := &judgedCluster{t: t, env: map[string]string{"NATS_URL": strings.Join(urls, ","), "SHARD_CLUSTER": "shop"}, table: table, servers: servers, members: map[string]*judged{}}
	if len(servers) == 1 {
		var err error
		c.cut, err = proxy.New()
		require.NoError(t, err)
		t.Cleanup(c.cut.Close)
		c.cut.Forward(strings.TrimPrefix(servers[0].URL(), "nats://"))
	}
	var starting sync.WaitGroup
	for _, name := range []string{"n1", "n2", "n3"} {
		starting.Go(func() { c.start(name) })
	}
	starting.Wait()
	conn, err := shard.Dial(t.Context(), shard.Config{Cluster: "shop", Name: "web", Transport: transportOf(c.env), Logger: quietLog})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	c.client = conn
	out, stdout := io.Pipe()
	go func() {
		_ = run(t.Context(), strings.Fields("dashboard -listen 127.0.0.1:0"), func(key string) string { return c.env[key] }, stdout, io.Discard)
	}()
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	c.dashboard = strings.TrimSpace(url)
	var working sync.WaitGroup // of the goroutines that write during the faults
	for i := range 4 {
		working.Go(func() {
			for t.Context().Err() == nil {
				if !c.quiet.Load() {
					_, _ = bank.NewWalletClient(conn).Ref(fmt.Sprint(i), shard.Timeout(5*time.Second)).Add(t.Context(), 1)
				}
				tasks.Rest(t.Context(), 20*time.Millisecond)
			}
		})
	}
	t.Cleanup(working.Wait)
	require.Eventually(t, func() bool { return len(c.unsaid(nil)) == 0 }, time.Minute, 100*time.Millisecond, "it is healthy")
	return c
}

func (c *judgedCluster) start(name string) {
	cmd := exec.Command(cmp.Or(os.Getenv(programVar), os.Args[0]))
	cmd.Env = append(os.Environ(), judgedVar+"="+name, "NATS_URL="+c.env["NATS_URL"])
	if len(c.servers) > 1 {
		cmd.Env = append(cmd.Env, replicasVar+"=3")
	}
	if name == "n3" && c.cut != nil {
		cmd.Env = append(cmd.Env, "NATS_URL=nats://"+c.cut.Addr())
	}
	if c.table != "" {
		cmd.Env = append(cmd.Env, tableVar+"="+c.table)
	}
	stdin, err := cmd.StdinPipe()
	require.NoError(c.t, err)
	stderr, err := cmd.StderrPipe()
	require.NoError(c.t, err)
	log := &faultLog{}
	go log.read(stderr)
	stdout, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	release, err := natsproc.StartChild(cmd, nil)
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		release()
	})
	r := bufio.NewReader(stdout)
	at, err := r.ReadString('\n')
	require.NoError(c.t, err)
	line, err := r.ReadString('\n')
	require.NoError(c.t, err)
	require.Equal(c.t, "up\n", line)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members[name] = &judged{cmd.Process, stdin, strings.TrimSpace(at), log}
}

func (c *judgedCluster) member(name string) *judged {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[name]
}

func httpText(url string) string {
	client := http.Client{Timeout: time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	b, _ := io.ReadAll(answer.Body)
	return string(b)
}

// judges are the functions that return what each judge says of a cluster. Of a healthy cluster no
// judge says anything.
var judges = map[string]func(c *judgedCluster) string{
	"status": func(c *judgedCluster) string {
		o := shardctl(c.t, c.env, "status -timeout 5s")
		if o.code == exitOK && !strings.Contains(o.stdout, "NOT healthy") {
			return ""
		}
		return o.stdout + o.stderr
	},
	"readyz": func(c *judgedCluster) (all string) {
		for _, name := range []string{"n1", "n2", "n3"} {
			if text := httpText(c.member(name).probes + "/readyz"); text != "ready\n" {
				all += text
			}
		}
		return all
	},
	"doctor": func(c *judgedCluster) string {
		o := shardctl(c.t, c.env, "doctor")
		if o.code == exitOK {
			return ""
		}
		return o.stdout + o.stderr
	},
	"log": func(c *judgedCluster) (all string) {
		for _, name := range []string{"n1", "n2", "n3"} {
			all += c.member(name).log.text(c.struck.Load())
		}
		return all
	},
	"dashboard": func(c *judgedCluster) string {
		var of struct{ Health clusterview.Health }
		if err := json.Unmarshal([]byte(httpText(c.dashboard+"api/cluster")), &of); err != nil {
			return err.Error()
		}
		if of.Health.Healthy {
			return ""
		}
		return strings.Join(of.Health.Wrong, "\n")
	},
}

// unsaid returns the judges whose words want does not match. If want is nil, it returns the judges
// that say anything.
func (c *judgedCluster) unsaid(want *regexp.Regexp) (who []string) {
	for name, say := range judges { //arch:order-free each is asked by itself
		if text := say(c); want == nil && text != "" || want != nil && !want.MatchString(text) {
			who = append(who, name)
		}
	}
	return who
}

// A sight has the time when a judge first said what it should, and its words.
type sight struct {
	after time.Duration
	line  string
}

// await polls each judge until the judge says what it should, for at most the duration long.
func (c *judgedCluster) await(want *regexp.Regexp, long time.Duration) map[string]sight {
	began := time.Now()
	all := map[string]sight{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for name, say := range judges { //arch:order-free each is asked by itself
		asking.Go(func() {
			for {
				text := say(c)
				after := time.Since(began)
				line := ""
				if want != nil {
					for l := range strings.Lines(text) {
						if want.MatchString(l) {
							line = strings.TrimSpace(l)
							break
						}
					}
				}
				if want == nil && text == "" || line != "" {
					mu.Lock()
					all[name] = sight{after, line}
					mu.Unlock()
					return
				}
				if after > long {
					mu.Lock()
					all[name] = sight{after, "NOT SAID: " + text}
					mu.Unlock()
					return
				}
				tasks.Rest(c.t.Context(), 100*time.Millisecond)
			}
		})
	}
	asking.Wait()
	return all
}

// A judgedFault is one row of the table: how it begins and ends, and what every judge must say.
type judgedFault struct {
	name  string
	begin func(c *judgedCluster)
	end   func(c *judgedCluster)
	want  string
}

// patience bounds how long each judge may take to say that a fault has begun or ended. The printed
// table has how long each judge took. On an idle machine that is less than ten seconds, except
// where a fault's comment says so.
const patience = 2 * time.Minute

func (c *judgedCluster) strike(table *tabwriter.Writer, f judgedFault) {
	t := c.t
	began := time.Now()
	for _, name := range []string{"n1", "n2", "n3"} {
		c.member(name).log.forget()
	}
	c.struck.Store(true)
	f.begin(c)
	said := c.await(regexp.MustCompile(f.want), patience)
	if lasts, err := time.ParseDuration(os.Getenv(lastsVar)); err == nil {
		tasks.Rest(t.Context(), lasts)
	}
	c.struck.Store(false)
	f.end(c)
	over := c.await(nil, patience)
	names := []string{"status", "readyz", "doctor", "dashboard", "log"}
	for _, name := range names {
		s, o := said[name], over[name]
		line := s.line
		if len(line) > 150 {
			line = line[:150] + "…"
		}
		fmt.Fprintf(table, "%s\t%s\t%.1fs\t%.1fs\t%s\n", f.name, name, s.after.Seconds(), o.after.Seconds(), line)
		if strings.HasPrefix(s.line, "NOT SAID") {
			t.Errorf("%s: after %v, %s says: %s", f.name, s.after, name, s.line)
		}
		if o.line != "" {
			t.Errorf("%s: %v after its end, %s says: %s", f.name, o.after, name, o.line)
		}
	}
	t.Logf("%s took %v", f.name, time.Since(began))
}

// jetStream returns a JetStream of the cluster's servers.
func (c *judgedCluster) jetStream() jetstream.JetStream {
	c.t.Helper()
	nc, err := nats.Connect(c.env["NATS_URL"])
	require.NoError(c.t, err)
	c.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(c.t, err)
	return js
}

func fillStore(c *judgedCluster) {
	c.t.Helper()
	js := c.jetStream()
	_, err := js.CreateStream(c.t.Context(), jetstream.StreamConfig{Name: "junk", Subjects: []string{"junk.>"}, Storage: jetstream.FileStorage})
	require.NoError(c.t, err)
	for size := 500_000; size > 0; size /= 2 {
		for {
			if _, err := js.Publish(c.t.Context(), "junk.x", make([]byte, size)); err != nil {
				break
			}
		}
	}
}

func emptyStore(c *judgedCluster) {
	c.t.Helper()
	require.NoError(c.t, c.jetStream().DeleteStream(c.t.Context(), "junk"))
}

// awaitLeaders waits until each stream has a leader.
func (c *judgedCluster) awaitLeaders() {
	c.t.Helper()
	js := c.jetStream()
	led := func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		streams, n := js.ListStreams(ctx), 0
		for info := range streams.Info() {
			if info.Cluster == nil || info.Cluster.Leader == "" {
				return false
			}
			n++
		}
		return streams.Err() == nil && n > 0
	}
	require.Eventually(c.t, led, patience, 50*time.Millisecond)
}

// kill kills a member.
func (c *judgedCluster) kill(name string) {
	require.NoError(c.t, c.member(name).Kill())
}

// hold begins a turn that lasts until the returned function is called, with calls that wait behind it.
func (c *judgedCluster) hold(calls int) (release func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var calling sync.WaitGroup
	account := fixture.NewAccountClient(c.client).Ref("stuck", shard.Timeout(time.Hour))
	calling.Go(func() { _ = account.Hold(ctx) })
	for range calls {
		calling.Go(func() {
			for ctx.Err() == nil {
				_, _ = account.Add(ctx, 1)
				tasks.Rest(ctx, 50*time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		calling.Wait()
	}
}

// judge causes the faults, and prints the table of what was said.
func (c *judgedCluster) judge(faults ...judgedFault) {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "fault\tjudge\tsaid after\tend after\twhat")
	for _, f := range faults {
		if only := os.Getenv(faultVar); only == "" || strings.Contains(f.name, only) {
			c.strike(table, f)
		}
	}
	require.NoError(c.t, table.Flush())
	c.t.Logf("the verdicts:\n%s", out.String())
	require.NotRegexp(c.t, `is healthy`, out.String())
}

// lostMember matches what judges say of a member that does not work.
const lostMember = `n3.* (is missing|is not reachable|does not answer|is down)`

// TestVerdict causes faults of members on real processes. It prints what every judge says, and
// when.
func TestVerdict(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes two minutes")
	}
	c := startJudged(t, "", natsproc.Start(t, "-js", "-sd", t.TempDir()))
	var release func()
	nothing := func(*judgedCluster) {}
	kill, restart := func(c *judgedCluster) { c.kill("n3") }, func(c *judgedCluster) { c.start("n3") }
	c.judge(
		judgedFault{"a member is killed", kill, restart, lostMember},
		judgedFault{"a member stands still", func(c *judgedCluster) { stop(c.t, c.member("n3").Process) }, func(c *judgedCluster) {
			c.kill("n3") // the others may have removed it, so it would end when it goes on
			c.start("n3")
		}, lostMember},
		judgedFault{
			"a turn hangs, with calls behind", func(c *judgedCluster) { release = c.hold(3) }, func(*judgedCluster) { release() },
			`Account/stuck: a turn of .* has run for at least .*, and calls wait behind it: 3`,
		},
		judgedFault{"calls exceed a mailbox", func(c *judgedCluster) { release = c.hold(40) }, func(*judgedCluster) { release() }, `calls were refused with ErrOverloaded`},
		judgedFault{"a member crashes again and again", func(c *judgedCluster) {
			for range 3 {
				c.kill("n3")
				c.start("n3")
			}
		}, nothing, `n3 was lost \d times within`},
	)
}

// TestVerdictOnTheStore causes faults of the broker and of the store.
func TestVerdictOnTheStore(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "nats.conf")
	configure := func(deny string) {
		text := fmt.Sprintf("jetstream { store_dir: %q, max_file: 40M, max_mem: 8M }\n", filepath.Join(dir, "data"))
		text += fmt.Sprintf("accounts { A { jetstream: enabled, users: [{user: a, password: a, permissions: { publish: { deny: [%s] } } }] } }\nno_auth_user: a\n", deny)
		require.NoError(t, os.WriteFile(conf, []byte(text), 0o600))
	}
	configure("")
	server := natsproc.Start(t, "-c", conf)
	c := startJudged(t, "", server)
	deny := func(what string) func(*judgedCluster) {
		return func(*judgedCluster) {
			configure(what)
			require.NoError(t, server.Reload())
		}
	}
	do := func(what func() error) func(*judgedCluster) {
		return func(*judgedCluster) { require.NoError(t, what()) }
	}
	c.judge(
		judgedFault{"the store is full", fillStore, emptyStore, `(?i)(taken no write|writes of .* failed).*(full|insufficient|resources|storage)`},
		judgedFault{"the store is full, and nobody writes", func(c *judgedCluster) {
			c.quiet.Store(true)
			fillStore(c)
		}, func(c *judgedCluster) {
			emptyStore(c)
			c.quiet.Store(false)
		}, `(taken no write|writes of .* failed)`},
		judgedFault{"the right to write is gone", deny(`"shardgen.>"`), deny(""), `(taken no write|writes of .* failed|denied|ermission)`},
		judgedFault{"the broker stands still", do(server.Pause), do(server.Resume), `(broker|no answer|connect|lost contact|timeout|i/o)`},
		judgedFault{"the broker is gone", do(server.Kill), do(server.Start), `(broker|no answer|connect|refused)`},
	)
}

// TestVerdictOnTheTable suspends the server that has the membership table.
func TestVerdictOnTheTable(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	table := natsproc.Start(t, "-js", "-sd", t.TempDir())
	c := startJudged(t, table.URL(), natsproc.Start(t, "-js", "-sd", t.TempDir()))
	c.judge(judgedFault{"a member is cut off", func(c *judgedCluster) { c.cut.Hold(true) }, func(c *judgedCluster) {
		c.cut.Hold(false)
		c.kill("n3") // the others may have removed it
		c.start("n3")
	}, lostMember}, judgedFault{
		"the membership table does not answer", func(*judgedCluster) { require.NoError(t, table.Pause()) },
		func(*judgedCluster) { require.NoError(t, table.Resume()) }, `the membership table has not answered`,
	})
}

// TestVerdictOnClocks sets the wall clock of a member. Only special builds of members, which take
// minutes to build, have a clock that can be set.
func TestVerdictOnClocks(t *testing.T) {
	if os.Getenv(faultVar) != "clock" {
		t.Skip("it builds Go's standard library: it runs with " + faultVar + "=clock")
	}
	program := filepath.Join(t.TempDir(), "member")
	require.NoError(t, wallclock.BuildTest(t.Context(), "github.com/shardgen/shardgen/cmd/shardctl", program))
	t.Setenv(programVar, program)
	c := startJudged(t, "", natsproc.Start(t, "-js", "-sd", t.TempDir()))
	set := func(wrong string) func(*judgedCluster) {
		return func(c *judgedCluster) {
			_, err := io.WriteString(c.member("n3").stdin, wrong+"\n")
			require.NoError(c.t, err)
		}
	}
	c.judge(
		judgedFault{"the clock is ahead", set("1h"), set("0s"), `the wall clock is 1h0m0s ahead of the store's`},
		judgedFault{"the clock is behind", set("-3s"), set("0s"), `the wall clock is 3s behind the store's`},
	)
}

// TestVerdictWithoutLeader: two of three NATS servers are killed, so that no stream has a leader. The
// fault ends when all streams have leaders again.
func TestVerdictWithoutLeader(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	servers, err := natsproc.RunStores(t.TempDir(), t.TempDir(), t.TempDir())
	require.NoError(t, err)
	for _, s := range servers {
		t.Cleanup(func() { _ = s.Kill() })
	}
	c := startJudged(t, "", servers...)
	runs := 10
	if n, err := strconv.Atoi(os.Getenv(doctorsVar)); err == nil {
		runs = n
	}
	for range runs { // a replica that is some messages behind is no fault
		shardctl(t, c.env, "doctor").check(t, "doctor", exitOK, "ok    streams", "")
	}
	each := func(do func(*natsproc.Server) error) {
		for _, s := range servers[1:] {
			require.NoError(t, do(s))
		}
	}
	kill := func(*judgedCluster) { each((*natsproc.Server).Kill) }
	restart := func(c *judgedCluster) {
		each((*natsproc.Server).Start)
		c.awaitLeaders()
	}
	c.judge(judgedFault{"no stream has a leader", kill, restart, `(taken no write|writes of .* failed|writes to the store are slow|JetStream|no leader)`})
}
