package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/schedule"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// A Raw is a call with encoded arguments: a JSON object with the arguments by name, or the protobuf
// message that "shardgen contract proto" prints. The method CallRaw of generated clients sends it.
type Raw = codegen.Raw

// Content types of a [Raw] call, for Raw.ContentType.
const (
	ContentJSON     = codegen.ContentJSON
	ContentProtobuf = codegen.ContentProtobuf
)

const (
	headerOutcome = "Shard-Outcome" // executed, not executed or unknown
	headerError   = "Shard-Error"   // one line; absent if the call succeeded
	headerContent = "Content-Type"
)

// headerKey is the header of a request that carries its idempotency key. The name comes from the
// draft draft-ietf-httpapi-idempotency-key-header, so an HTTP proxy can pass the header on
// unchanged.
const headerKey = "Idempotency-Key"

// maxRequests is the largest number of requests that one node's gateway handles at the same time.
// One caller may have at most half of that number.
const maxRequests = 2048

// requests is a node's gateway: it makes the calls that programs in other languages request through
// the broker.
type requests struct{ node *Node }

func (g requests) serve(ctx context.Context) error {
	n := g.node
	if !n.cfg.Gateway {
		return nil
	}
	requester, ok := n.cfg.Transport.(transport.Requester)
	if !ok {
		return fmt.Errorf("start node %s: Config.Gateway: this transport does not support requests", n.cfg.Name)
	}
	kinds := map[string]*node.Kind{}
	var names []string
	for _, h := range n.hosted() {
		kinds[h.Desc.Name] = h.Kind
		names = append(names, h.Desc.Name)
	}
	slices.Sort(names)
	stop, err := requester.ServeRequests(ctx, transport.RequestOptions{
		Cluster: n.cfg.Cluster, Name: n.cfg.Name, Kinds: names, Limit: maxRequests, Logger: n.log,
		Handle: func(r *transport.Request) { g.call(kinds[r.Kind], r) },
		Refuse: func(r *transport.Request) { g.respond(r, false, nil, notSent(r, g.errTooMany())) },
	})
	if err != nil {
		return fmt.Errorf("start node %s: Config.Gateway: %w", n.cfg.Name, err)
	}
	end := sync.OnceFunc(stop) // a second call waits for the first
	n.mu.Lock()
	n.endRequests = end
	leaving := !n.leaveAt.IsZero()
	n.mu.Unlock()
	if leaving { // Shutdown was called meanwhile
		n.driver.Group.Go(end)
	}
	n.driver.Group.Go(func() {
		<-n.driver.Stop
		end()
	})
	return nil
}

// end makes the broker send requests to other members' gateways. It returns when the requests that
// are here have been answered, after patience, or when ctx ends. A node calls it before it leaves,
// because others soon do not listen to a node that has left.
func (g requests) end(ctx context.Context, patience time.Duration) {
	g.node.mu.Lock()
	end := g.node.endRequests
	g.node.mu.Unlock()
	if end == nil {
		return
	}
	over := make(chan struct{})
	g.node.driver.Group.Go(func() {
		end()
		close(over)
	})
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

func (g requests) errTooMany() error {
	return fmt.Errorf("%w: the gateway at %s has %d requests under way, or %d of this caller (retry later, or start more members with Config.Gateway)", ErrOverloaded, g.node.cfg.Name, maxRequests, maxRequests/2)
}

func notSent(r *transport.Request, err error) error {
	return &CallError{Kind: r.Kind, ID: r.ID, Method: bounded.Text(r.Method), Outcome: NotExecuted, Err: err}
}

func (g requests) call(k *node.Kind, r *transport.Request) {
	n := g.node
	raw := Raw{Method: r.Method, ID: r.ID, ContentType: r.ContentType, Body: r.Body}
	asJSON, _ := raw.IsJSON()
	info, timeout, err := g.understand(k, r, &raw)
	if err != nil {
		g.respond(r, asJSON, nil, notSent(r, err))
		return
	}
	ctx := node.WithOutgoing(n.driver.Context, info)
	if t := n.cfg.Tracing; t != nil {
		ctx = t.Extract(ctx, Info{headers: info.Headers})
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := codegen.CallRaw(ctx, node.InvokerOf(k), k.Desc, raw)
	g.respond(r, asJSON, body, err)
}

// understand returns the description and the timeout of the requested call. It sets the command id
// and delay of raw.
func (g requests) understand(k *node.Kind, r *transport.Request, raw *Raw) (info wire.Info, timeout time.Duration, err error) {
	if r.IDErr != nil {
		return info, 0, fmt.Errorf("%w: %w", ErrBadID, r.IDErr)
	}
	if !slices.Contains(k.Desc.Methods, r.Method) {
		return info, 0, fmt.Errorf("%w: %s has no method %s", ErrNoMethod, k.Desc.Name, node.NoMethod(r.Method, k.Desc.Methods))
	}
	if timeout, err = requestTimeout(r.Timeout, g.node.cfg.CallTimeout); err != nil {
		return info, 0, err
	}
	info.Gateway = r.Caller
	for _, key := range slices.Sorted(maps.Keys(r.Header)) {
		if strings.EqualFold(key, headerKey) {
			if raw.CommandID, err = keyOf(k, r.Header[key]); err != nil {
				return info, 0, err
			}
			continue
		}
		if known, err := delayHeader(raw, key, r.Header[key]); err != nil {
			return info, 0, fmt.Errorf("%s: %w", key, err)
		} else if known {
			continue
		}
		for _, value := range r.Header[key] {
			info.Headers = append(info.Headers, wire.Header{Key: strings.ToLower(key), Value: value})
		}
	}
	if d := raw.Delay; d != nil && d.Kind == 0 {
		return info, 0, errors.New("a reminder needs one of the headers Shard-In, Shard-At, Shard-Every and Shard-Cron")
	}
	return info, timeout, info.Check()
}

// delayHeader sets the delay of raw if key is a header for reminders, and reports whether it is.
func delayHeader(raw *Raw, key string, values []string) (known bool, err error) {
	delay := &codegen.Delay{}
	if raw.Delay != nil {
		delay = raw.Delay
	}
	kind := delay.Kind
	value := ""
	if len(values) > 0 {
		value = values[0]
	}
	switch strings.ToLower(key) {
	case "shard-in":
		kind = uint8(schedule.KindOnce)
		delay.After, err = time.ParseDuration(value)
	case "shard-at":
		kind = uint8(schedule.KindOnce)
		delay.At, err = time.Parse(time.RFC3339, value)
	case "shard-every":
		kind = uint8(schedule.KindEvery)
		delay.Period, err = time.ParseDuration(value)
	case "shard-cron":
		kind, delay.Cron = uint8(schedule.KindCron), value
	case "shard-zone":
		delay.Zone = value
	case "shard-reminder":
		delay.Name = value
	default:
		if strings.HasPrefix(strings.ToLower(key), "shard-") { // else a misspelled one runs at once
			err = errors.New("unknown header (known: Shard-Timeout, and for reminders Shard-In, Shard-At, Shard-Every, Shard-Cron and others)")
		}
		return false, err
	}
	switch {
	case err != nil:
		return true, err
	case len(values) != 1:
		return true, fmt.Errorf("got %d values (want one)", len(values))
	case delay.Kind != 0 && kind != delay.Kind, kind == uint8(schedule.KindOnce) && delay.After != 0 && !delay.At.IsZero():
		return true, errors.New("a reminder has only one of the headers Shard-In, Shard-At, Shard-Every and Shard-Cron")
	}
	delay.Kind, raw.Delay = kind, delay
	return true, nil
}

// keyOf returns the idempotency key of a request. Where a key would have no effect it is refused,
// because its sender would repeat the request and have it run twice.
func keyOf(k *node.Kind, values []string) (string, error) {
	switch {
	case len(values) != 1:
		return "", fmt.Errorf("%s: got %d values (want one)", headerKey, len(values))
	case values[0] == "":
		return "", fmt.Errorf("%s: the key is empty (give it a key, or leave the header out)", headerKey)
	case !k.Desc.Durable:
		return "", fmt.Errorf("%s: %s is not durable, so a repeated request would run again (leave the header out)", headerKey, k.Desc.Name)
	}
	return values[0], nil
}

// maxRequestTimeout is the longest timeout that a request may ask for; if Config.CallTimeout is
// longer, that is the limit. A limit is needed because each request takes one of maxRequests places
// until it ends.
const maxRequestTimeout = time.Minute

func requestTimeout(asked string, usual time.Duration) (time.Duration, error) {
	if asked == "" {
		return usual, nil
	}
	d, err := time.ParseDuration(asked)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("timeout %q is not a positive duration such as 2s", bounded.Text(asked))
	}
	if most := max(maxRequestTimeout, usual); d > most {
		return 0, fmt.Errorf("timeout %v is too long (want at most %v)", d, most)
	}
	return d, nil
}

// respond answers a request with a reply subject: outcome and error in headers, for JSON the error
// also in the body.
func (g requests) respond(r *transport.Request, asJSON bool, body []byte, err error) {
	n := g.node
	if r.Answer == nil {
		return
	}
	header := map[string]string{headerOutcome: OutcomeOf(err).String(), headerContent: ContentProtobuf}
	if asJSON {
		header[headerContent] = ContentJSON
	}
	if err != nil {
		header[headerError] = oneLine(err.Error())
		if body = nil; asJSON {
			body, _ = json.Marshal(map[string]string{"error": err.Error(), "outcome": header[headerOutcome]})
		}
	}
	if err := r.Answer(header, body); err != nil && !errors.Is(err, context.Canceled) {
		n.driver.Limiter.Warn(n.log, "answer to a request not sent", "", "", "kind", r.Kind, "method", r.Method, "err", err)
	}
}

func oneLine(s string) string {
	const most = 1024
	s = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
	return s[:min(len(s), most)]
}
