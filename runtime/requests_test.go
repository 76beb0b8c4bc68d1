package shard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/shop"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/membership"
	memstore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport"
	"github.com/shardgen/shardgen/transport/memory"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// gatewayCluster starts two nodes that take requests, over a server of their own, and a NATS client
// without generated code.
func gatewayCluster(t *testing.T) (*nats.Conn, *shard.Node) {
	t.Helper()
	server, err := embedded.Start(embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	var last *shard.Node
	for _, name := range []string{"a", "b"} {
		node := shard.New(shard.Config{
			Cluster: "test", Name: name, Transport: natstransport.New(server.ClientURL()), Logger: logger(name), Gateway: true,
		})
		client := fixture.NewAccountClient(node)
		require.NoError(t, fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{Peers: client.API} }))
		require.NoError(t, fixture.HostCashier(node, func() *fixture.Cashier { return &fixture.Cashier{} }))
		require.NoError(t, node.Start(context.Background()), "without a deadline, as Run starts")
		t.Cleanup(func() { _ = node.Close() })
		last = node
	}
	nc, err := nats.Connect(server.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc, last
}

// TestGateway: any client of the broker calls an entity.
func TestGateway(t *testing.T) {
	nc, node := gatewayCluster(t)
	bigID := strings.Repeat("x", 300)
	args := codegen.AppendInt(nil, 1, 3)
	tests := []struct {
		name, subject, content, timeout, body string
		outcome, failure, want                string // failure and want are parts of the actual texts
	}{
		{name: "json", subject: "Account.Add.alice", body: `{"n": 5}`, outcome: "executed", want: `{"balance":5}`},
		{name: "declared json", subject: "Account.Add.alice", content: "application/json; charset=utf-8", body: ` {"n":2} `, outcome: "executed", want: `{"balance":7}`},
		{name: "protobuf", subject: "Account.Add.alice", content: shard.ContentProtobuf, body: string(args), outcome: "executed", want: string(codegen.AppendInt(nil, 1, 10))},
		{name: "guessed protobuf", subject: "Account.Add.bob", body: string(args), outcome: "executed", want: string(codegen.AppendInt(nil, 1, 3))},
		{name: "no arguments", subject: "Account.Get.alice", outcome: "executed", want: `{"result1":10}`},
		{name: "no results", subject: "Account.Note.a=20b=2Ec", body: `{"line":"hello"}`, outcome: "executed", want: `{}`},
		{name: "escaped id", subject: "Account.Lines.a=20b=2Ec", body: `{}`, outcome: "executed", want: `{"result1":["hello"]}`},
		{name: "bytes", subject: "Account.Echo.alice", body: `{"payload":"aGk="}`, outcome: "executed", want: `{"result1":"aGk="}`},
		{name: "told", subject: "Cashier.Remark.d", body: `{"text":"x"}`, outcome: "executed", want: `{}`},
		{name: "method's error", subject: "Cashier.Refuse.d", body: `{"what":"wrapped"}`, outcome: "executed", failure: "Cashier/d.Refuse: cashier: shut", want: `"error":"Cashier/d.Refuse: cashier: shut"`},
		{name: "panic", subject: "Account.Panic.p", body: `{"text":"oh\nno"}`, outcome: "executed", failure: "panic: oh no", want: `oh\nno`},

		{name: "unknown name", subject: "Account.Add.alice", body: `{"m":1}`, outcome: "not executed", failure: `unknown name "m" (there are: n)`, want: `"outcome":"not executed"`},
		{name: "wrong type", subject: "Account.Add.alice", body: `{"n":"five"}`, outcome: "not executed", failure: "n: json: cannot unmarshal", want: "error"},
		{name: "too large", subject: "Account.Add.alice", body: `{"n":1e300}`, outcome: "not executed", failure: "n: json: cannot unmarshal", want: "error"},
		{name: "deep", subject: "Account.Add.alice", body: `{"n":` + strings.Repeat("[", 20_000), outcome: "not executed", failure: "JSON", want: "error"},
		{name: "no object", subject: "Account.Add.alice", content: shard.ContentJSON, body: `5`, outcome: "not executed", failure: "cannot unmarshal number", want: "error"},
		{name: "a number, not declared", subject: "Account.Add.alice", body: `5`, outcome: "not executed", failure: "want an object of the arguments by their names", want: `"outcome":"not executed"`},
		{name: "an array, not declared", subject: "Account.Add.alice", body: ` [5]`, outcome: "not executed", failure: "want an object of the arguments by their names", want: `"outcome":"not executed"`},
		{name: "a text, not declared", subject: "Account.Add.alice", body: `"x"`, outcome: "not executed", failure: "want an object of the arguments by their names", want: `"outcome":"not executed"`},
		{name: "null, not declared", subject: "Account.Add.alice", body: `null`, outcome: "executed", want: `{"balance":10}`},
		{name: "a name twice", subject: "Account.Add.alice", body: `{"n":1,"n":2}`, outcome: "not executed", failure: `the name "n" occurs twice`, want: "error"},
		{name: "long unknown name", subject: "Account.Add.alice", body: `{"` + strings.Repeat("x", 2000) + `":1}`, outcome: "not executed", failure: strings.Repeat("x", 200) + "… (2000 bytes)", want: "error"},
		{name: "long number", subject: "Account.Add.alice", body: `{"n":` + strings.Repeat("1", 2000) + `}`, outcome: "not executed", failure: "n: json: cannot unmarshal number 111", want: "error"},
		{name: "long content type", subject: "Account.Add.alice", content: strings.Repeat("x", 2000), outcome: "not executed", failure: "… (2000 bytes)"},
		{name: "long time-out", subject: "Account.Get.alice", timeout: strings.Repeat("x", 2000), outcome: "not executed", failure: "… (2000 bytes)", want: "error"},
		{name: "time-out beyond the ceiling", subject: "Account.Get.alice", timeout: "61s", outcome: "not executed", failure: "timeout 1m1s is too long (want at most 1m0s)", want: "error"},
		{name: "cut off", subject: "Account.Add.alice", body: `{"n":`, outcome: "not executed", failure: "unexpected end of JSON input", want: "error"},
		{name: "arguments nobody takes", subject: "Account.Get.alice", body: `{"n":1}`, outcome: "not executed", failure: `unknown name "n"`, want: "error"},
		{name: "bad protobuf", subject: "Account.Add.alice", content: shard.ContentProtobuf, body: "\xff", outcome: "not executed", failure: "the arguments cannot be decoded"},
		{name: "content type", subject: "Account.Add.alice", content: "text/xml", body: `<n/>`, outcome: "not executed", failure: `content type "text/xml" (want application/json or application/protobuf)`},
		{name: "unknown method", subject: "Account.Fly.alice", body: `{}`, outcome: "not executed", failure: "Account has no method Fly (it has Add, Echo,", want: "error"},
		{name: "unknown method in protobuf", subject: "Account.Fly.alice", content: shard.ContentProtobuf, outcome: "not executed", failure: "unknown method: Account has no method Fly (it has Add, Echo,"},
		{name: "long method", subject: "Account." + strings.Repeat("x", 2000) + ".alice", body: `{}`, outcome: "not executed", failure: "no method " + strings.Repeat("x", 200) + "… (2000 bytes)", want: "error"},
		{name: "no id", subject: "Account.Get", body: `{}`, outcome: "not executed", failure: "bad entity id", want: "error"},
		{name: "bad escape", subject: "Account.Get.=4", body: `{}`, outcome: "not executed", failure: `bad entity id: unescape id "=4": = at its end`, want: "error"},
		{name: "dots in an id", subject: "Account.Lines.a=20b.c", body: `{}`, outcome: "not executed", failure: `in a subject it must be "a=20b=2Ec"`, want: "error"},
		{name: "another escape of an id", subject: "Account.Add.=61lice", body: `{"n":1}`, outcome: "not executed", failure: `in a subject it must be "alice"`, want: "error"},
		{name: "bad time-out", subject: "Account.Get.alice", timeout: "soon", outcome: "not executed", failure: `timeout "soon" is not a positive duration such as 2s`, want: "error"},
		{name: "time-out", subject: "Account.Get." + bigID, timeout: "20s", outcome: "executed", want: `{"result1":0}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := nats.NewMsg("sh.test.g.any." + tt.subject)
			m.Data = []byte(tt.body)
			if tt.content != "" {
				m.Header.Set("Content-Type", tt.content)
			}
			if tt.timeout != "" {
				m.Header.Set("Shard-Timeout", tt.timeout)
			}
			answer, err := nc.RequestMsgWithContext(testContext(t), m)
			require.NoError(t, err)
			require.Equal(t, tt.outcome, answer.Header.Get("Shard-Outcome"), answer.Header.Get("Shard-Error"))
			require.Equal(t, tt.failure != "", answer.Header.Get("Shard-Error") != "")
			require.Contains(t, answer.Header.Get("Shard-Error"), tt.failure)
			require.Less(t, len(answer.Header.Get("Shard-Error")), 800, "it echoes what the caller has sent")
			if tt.want == "" {
				require.Empty(t, answer.Data)
			}
			require.Contains(t, string(answer.Data), tt.want)
			if answer.Header.Get("Content-Type") == shard.ContentJSON {
				require.True(t, json.Valid(answer.Data), "%s", answer.Data)
			}
		})
	}

	// A request without a reply subject is a call without an answer.
	require.NoError(t, nc.Publish("sh.test.g.any.Account.Add.carol", []byte(`{"n":1}`)))
	accounts := fixture.NewAccountClient(node)
	require.Eventually(t, func() bool {
		got, err := accounts.Ref("carol").Get(testContext(t))
		return err == nil && got == 1
	}, testPatience, testTick)

	// A host answers only to the inbox of the caller named in the request's subject.
	other, err := nc.SubscribeSync("elsewhere.>")
	require.NoError(t, err)
	for _, reply := range []string{"elsewhere.purge", "_INBOX.other.x"} {
		require.NoError(t, nc.PublishRequest("sh.test.g.web.Account.Add.dora", reply, []byte(`{"n":1}`)))
	}
	mine, err := nc.SubscribeSync("_INBOX.web.>")
	require.NoError(t, err)
	require.NoError(t, nc.PublishRequest("sh.test.g.web.Account.Add.dora", "_INBOX.web.x", []byte(`{"n":1}`)))
	answer, err := mine.NextMsgWithContext(testContext(t))
	require.NoError(t, err)
	require.JSONEq(t, `{"balance":1}`, string(answer.Data), "the others were not executed")
	queued, _, err := other.Pending()
	require.NoError(t, err)
	require.Zero(t, queued)

	// Generated clients make raw calls themselves.
	body, err := accounts.CallRaw(testContext(t), shard.Raw{Method: "Add", ID: "carol", ContentType: shard.ContentJSON, Body: []byte(`{"n":1}`)})
	require.NoError(t, err)
	require.JSONEq(t, `{"balance":2}`, string(body))
	_, err = fixture.NewCashierClient(node).CallRaw(testContext(t), shard.Raw{Method: "Refuse", ID: "d", Body: []byte(`{"what":"wrapped"}`)})
	require.True(t, errors.Is(err, fixture.ErrShut))
}

// TestGatewayByHand calls an entity as the program in docs/guide/other-languages.md does: with no
// library, and without headers. The node starts without a deadline, as under Run.
func TestGatewayByHand(t *testing.T) {
	server, err := embedded.Start(embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	node := shard.New(shard.Config{
		Cluster: "demo", Name: "a", Transport: natstransport.New(server.ClientURL()), Logger: logger("a"), Gateway: true,
	})
	require.NoError(t, fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{} }))
	require.NoError(t, node.Start(context.Background()))
	t.Cleanup(func() { _ = node.Close() })

	conn, err := net.Dial("tcp", strings.TrimPrefix(server.ClientURL(), "nats://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(testPatience)))
	lines := bufio.NewReader(conn)
	_, err = io.WriteString(conn, "CONNECT {\"verbose\":false}\r\nSUB _INBOX.mine 1\r\n")
	require.NoError(t, err)
	for _, tt := range []struct{ body, want string }{
		{`{"n": 5}`, `{"balance":5}`},
		{`{"n": 2}`, `{"balance":7}`},
		{`{"m": 2}`, `{"error":"call Account/alice.Add: encode arguments from JSON: unknown name \"m\" (there are: n) (not executed)","outcome":"not executed"}`},
	} {
		_, err = fmt.Fprintf(conn, "PUB sh.demo.g.any.Account.Add.alice _INBOX.mine %d\r\n%s\r\n", len(tt.body), tt.body)
		require.NoError(t, err)
		line := ""
		for !strings.HasPrefix(line, "MSG ") {
			line, err = lines.ReadString('\n')
			require.NoError(t, err)
		}
		words := strings.Fields(line)
		size, err := strconv.Atoi(words[len(words)-1])
		require.NoError(t, err)
		answer := make([]byte, size)
		_, err = io.ReadFull(lines, answer)
		require.NoError(t, err)
		require.Equal(t, tt.want, string(answer))
	}
}

// TestGatewayWithoutJSON: a node with a gateway cannot host a type that was generated without JSON.
// The error has the remedy. As a proxy the node can have the type.
func TestGatewayWithoutJSON(t *testing.T) {
	hosting := func(gateway bool, opts ...shard.HostOption) error {
		node := shard.New(shard.Config{
			Cluster: "test", Name: "a", Transport: memory.NewBroker(memory.Options{}).Transport(), Logger: logger("a"), Gateway: gateway,
		})
		t.Cleanup(func() { _ = node.Close() })
		return fixture.HostFine(node, func() *fixture.Fine { return &fixture.Fine{} }, opts...)
	}
	require.NoError(t, hosting(false))
	require.NoError(t, hosting(true, shard.HostRole("elsewhere")))
	require.ErrorContains(t, hosting(true), "host Fine: Config.Gateway is set, and the type's code was generated without JSON (add json to its directive, as in //shard:entity json, and run go generate)")
}

// TestGatewayUnanswered: a request for a type that no node hosts has no listener.
func TestGatewayUnanswered(t *testing.T) {
	nc, _ := gatewayCluster(t)
	_, err := nc.Request("sh.test.g.any.Nobody.Get.x", nil, 5*time.Second)
	require.ErrorIs(t, err, nats.ErrNoResponders)
}

func TestGatewayWantsRequester(t *testing.T) {
	node := shard.New(shard.Config{
		Cluster: "test", Name: "a", Transport: memory.NewBroker(memory.Options{}).Transport(), Logger: logger("a"), Gateway: true,
	})
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	require.ErrorContains(t, node.Start(ctx), "Config.Gateway: this transport does not support requests")
	require.NoError(t, node.Close())
}

func TestEscapeID(t *testing.T) {
	for id, word := range map[string]string{
		"alice": "alice", "a.b": "a=2Eb", "": "", "=": "=3D", "ä": "=C3=A4", "\x00\xff": "=00=FF", "a-b_C9": "a-b_C9",
	} {
		require.Equal(t, word, transport.EscapeID(id))
		back, err := transport.UnescapeID(word)
		require.NoError(t, err)
		require.Equal(t, id, back)
	}
	for _, word := range []string{"=", "=4", "a=4", "=GG", "=4G"} {
		_, err := transport.UnescapeID(word)
		require.Error(t, err, word)
	}
}

// TestOnlyTheCanonicalEscape: an id has one subject, so that a permission that denies the subject
// denies the entity.
func TestOnlyTheCanonicalEscape(t *testing.T) {
	for word, canonical := range map[string]string{
		"=61dmin": "admin", "a.b": "a=2Eb", "=c3=a4": "=C3=A4", "ä": "=C3=A4", "=2D": "-", "a b": "a=20b",
	} {
		_, err := transport.UnescapeID(word)
		require.ErrorContains(t, err, canonical, word)
	}
}

// TestGatewayKey: requests with one Idempotency-Key run once, at any node and after a restart of
// all, and get the same answer. A key that cannot be kept is refused, and so is a key that was used
// for another call.
func TestGatewayKey(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	stored := memstore.New()
	start := func(name string) *shard.Node {
		node := shard.New(shard.Config{
			Cluster: "test", Name: name, Transport: natstransport.New(server.ClientURL()), Logger: logger(name), Gateway: true, Store: stored.Client(),
		})
		require.NoError(t, shop.HostSeller(node, func() *shop.Seller { return &shop.Seller{} }))
		require.NoError(t, shop.HostBuyer(node, func() *shop.Buyer { return &shop.Buyer{} }))
		require.NoError(t, node.Start(testContext(t)))
		t.Cleanup(func() { _ = node.Close() })
		return node
	}
	nc, err := nats.Connect(server.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	ask := func(what string, keys ...string) (outcome, answer string) {
		m := nats.NewMsg("sh.test.g.any." + what)
		for _, k := range keys {
			m.Header.Add("idempotency-key", k)
		}
		got, err := nc.RequestMsgWithContext(testContext(t), m)
		require.NoError(t, err)
		return got.Header.Get("Shard-Outcome"), string(got.Data)
	}
	node := start("a")
	_, first := ask("Seller.Who.k", "pay-7")
	start("b")
	require.NoError(t, node.Close())
	for range 3 {
		outcome, again := ask("Seller.Who.k", "pay-7")
		require.Equal(t, "executed", outcome)
		require.Equal(t, first, again)
	}
	_, count := ask("Seller.Count.k")
	require.JSONEq(t, `{"result1":1}`, count)
	ask("Seller.Who.k", "pay-8")
	_, count = ask("Seller.Count.k")
	require.JSONEq(t, `{"result1":2}`, count)
	for want, keys := range map[string][]string{
		"another method":                           {"pay-8"},
		"Idempotency-Key: the key is empty":        {""},
		"Idempotency-Key: got 2 values (want one)": {"x", "y"},
	} {
		outcome, text := ask("Seller.Note.k", keys...)
		require.Equal(t, "not executed", outcome)
		require.Contains(t, text, want)
	}
	outcome, text := ask("Buyer.Who.g", "pay-7")
	require.Equal(t, "not executed", outcome)
	require.Contains(t, text, "Buyer is not durable, so a repeated request would run again")
}

// TestGatewayHandsOver: callers of a gateway notice nothing when its members leave one after another.
// A member that is closed answers what it has received.
func TestGatewayHandsOver(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	start := func(name string) *shard.Node {
		node := shard.New(shard.Config{
			Cluster: "test", Name: name, Transport: natstransport.New(server.ClientURL()), Logger: logger(name), Gateway: true,
			CallTimeout: testPatience,
		})
		require.NoError(t, shop.HostBuyer(node, func() *shop.Buyer { return &shop.Buyer{} }))
		require.NoError(t, node.Start(testContext(t)))
		t.Cleanup(func() { _ = node.Close() })
		return node
	}
	nodes := []*shard.Node{start("a"), start("b")}
	nc, err := nats.Connect(server.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	var callers sync.WaitGroup
	var answers, failed atomic.Int64
	var leaving atomic.Bool
	leaving.Store(true)
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	for i := range 8 {
		callers.Go(func() {
			for {
				got, err := nc.RequestMsgWithContext(ctx, nats.NewMsg(fmt.Sprintf("sh.test.g.any.Buyer.Who.%d", i)))
				if ctx.Err() != nil || !assert.NoError(t, err) {
					return
				}
				answers.Add(1)
				if leaving.Load() && !assert.Equal(t, "executed", got.Header.Get("Shard-Outcome"), got.Header.Get("Shard-Error")) {
					failed.Add(1)
					return
				}
			}
		})
	}
	more := func() {
		before := answers.Load()
		require.Eventually(t, func() bool { return answers.Load() > before+200 || failed.Load() > 0 }, testPatience, time.Millisecond)
	}
	for i := range 4 {
		more()
		require.NoError(t, nodes[i].Shutdown(testContext(t)))
		nodes = append(nodes, start(fmt.Sprint("c", i)))
	}
	more()
	leaving.Store(false)
	require.NoError(t, nodes[4].Close())
	more()
	end()
	callers.Wait()
}

// TestGatewayAnswersBeforeItLeaves: a leaving node, even the last, is a full member until its
// gateway has answered. Meanwhile it receives no more requests.
func TestGatewayAnswersBeforeItLeaves(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	probe := &fixture.Probe{Entered: make(chan string, 1), Release: make(chan struct{})}
	node := shard.New(shard.Config{
		Cluster: "test", Name: "a", Transport: natstransport.New(server.ClientURL()), Logger: logger("a"), Gateway: true,
		CallTimeout: testPatience,
	})
	require.NoError(t, fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{Probe: probe} }))
	require.NoError(t, node.Start(testContext(t)))
	t.Cleanup(func() { _ = node.Close() })
	nc, err := nats.Connect(server.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	outcome := make(chan string, 1)
	go func() {
		got, err := nc.RequestMsgWithContext(testContext(t), nats.NewMsg("sh.test.g.any.Account.Hold.x"))
		if assert.NoError(t, err) {
			outcome <- got.Header.Get("Shard-Outcome")
		}
	}()
	receive(t, probe.Entered, "Hold begins")
	left := make(chan error, 1)
	go func() { left <- node.Shutdown(testContext(t)) }()
	require.Eventually(t, func() bool {
		_, err := nc.RequestWithContext(testContext(t), "sh.test.g.any.Account.Get.y", nil)
		return errors.Is(err, nats.ErrNoResponders)
	}, testPatience, testTick)
	require.Equal(t, membership.Up, node.Cluster().Status)
	close(probe.Release)
	require.Equal(t, "executed", receive(t, outcome, "Hold returns"))
	require.NoError(t, receive(t, left, "a leaves"))
}

// TestGatewayReminder: a request with a time is a reminder, and one with a wrong header is refused.
func TestGatewayReminder(t *testing.T) {
	server, err := embedded.Start(embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	node := shard.New(shard.Config{
		Cluster: "test", Name: "a", Transport: natstransport.New(server.ClientURL()), Logger: logger("a"), Gateway: true, Store: memstore.New().Client(),
	})
	require.NoError(t, shop.HostSeller(node, func() *shop.Seller { return &shop.Seller{} }))
	require.NoError(t, shop.HostBuyer(node, func() *shop.Buyer { return &shop.Buyer{} }))
	require.NoError(t, node.Start(testContext(t)))
	t.Cleanup(func() { _ = node.Close() })
	nc, err := nats.Connect(server.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	ask := func(what string, headers ...string) (outcome, answer string) {
		m := nats.NewMsg("sh.test.g.any." + what)
		for i := 0; i < len(headers); i += 2 {
			m.Header.Add(headers[i], headers[i+1])
		}
		got, err := nc.RequestMsgWithContext(testContext(t), m)
		require.NoError(t, err)
		return got.Header.Get("Shard-Outcome"), string(got.Data)
	}
	outcome, answer := ask("Seller.Who.k", "Shard-In", "1ms", "shard-reminder", "soon")
	require.Equal(t, "executed", outcome, answer)
	require.Equal(t, "{}", answer)
	require.Eventually(t, func() bool {
		_, count := ask("Seller.Count.k")
		return count == `{"result1":1}`
	}, testPatience, testTick, "the reminder runs")
	for range 2 { // with a key it is set once
		_, answer = ask("Seller.Who.k", "Shard-Cron", "0 9 * * *", "Shard-Zone", "Europe/Berlin", "Idempotency-Key", "x")
		require.Equal(t, "{}", answer)
	}
	all, err := shop.NewSellerClient(node).Scheduled(testContext(t), "k")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "Europe/Berlin", all[0].Zone)
	for want, headers := range map[string][]string{
		"only one of the headers":      {"Shard-In", "1s", "Shard-Every", "1s"},
		"needs one of the headers":     {"Shard-Zone", "UTC"},
		"Shard-At: parsing time":       {"Shard-At", "tomorrow"},
		"Shard-In: got 2 values":       {"Shard-In", "1s", "Shard-In", "2s"},
		"period: 10ms: want at least ": {"Shard-Every", "10ms"},
		"cron":                         {"Shard-Cron", "0 25 * * *"},
	} {
		outcome, text := ask("Seller.Who.k", headers...)
		require.Equal(t, "not executed", outcome, want)
		require.Contains(t, text, want)
	}
	outcome, answer = ask("Buyer.Who.g", "Shard-In", "1s") // the type is not durable
	require.Equal(t, "executed", outcome, answer)
}
