package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/transport"
)

// A jsonCall is the output of call -json. Fields are added, never changed.
type jsonCall struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Method  string          `json:"method"`
	Outcome string          `json:"outcome"`          // executed, not executed or unknown
	Result  json.RawMessage `json:"result,omitempty"` // an object with the results by their names
	Error   string          `json:"error,omitempty"`
}

const (
	executed    = "executed"
	notExecuted = "not executed"
	unknown     = "unknown"
)

// call calls a method through a gateway. It needs the rights of a gateway's caller, not those of an
// operator.
func call(ctx context.Context, o *options, w io.Writer) error {
	caller := cmp.Or(o.name, "any")
	// [gatewayCall.accepted] handles errors of the server.
	conn, err := nats.Connect(o.url, append(o.connection.options(), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	if err != nil {
		return printCall(w, o, jsonCall{Outcome: notExecuted}, fmt.Errorf("connect to %s: %w", o.url, err))
	}
	defer conn.Close()
	g := gatewayCall{conn: conn, options: o, caller: caller}
	c, err := g.run(ctx)
	return printCall(w, o, c, err)
}

type gatewayCall struct {
	conn    *nats.Conn
	options *options
	caller  string // the name by which the gateway knows this process
}

// run makes the call in three steps. It subscribes to the answer, sends the request, and waits for
// the answer. After each of the first two steps it waits until the server has accepted that step.
// So a missing right is reported at once, as not executed.
func (g gatewayCall) run(ctx context.Context) (jsonCall, error) {
	fails := func(outcome, step string, err error) (jsonCall, error) {
		return jsonCall{Outcome: outcome}, fmt.Errorf("call %s/%s.%s: %s: %w", g.options.kind, g.options.id, g.options.method, step, err)
	}
	request := g.request(ctx)
	answers, err := g.conn.SubscribeSync(request.Reply)
	if err == nil {
		err = g.accepted(ctx)
	}
	if err != nil {
		return fails(notExecuted, "subscribe to the answer", err)
	}
	if err := g.conn.PublishMsg(request); err != nil {
		return fails(notExecuted, "send it", err)
	}
	switch err := g.accepted(ctx); {
	case errors.Is(err, nats.ErrPermissionViolation):
		return fails(notExecuted, "send it", err)
	case err != nil:
		return fails(unknown, "it may have run", err)
	}
	answer, err := answers.NextMsgWithContext(ctx)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return jsonCall{Outcome: notExecuted}, fmt.Errorf("no member with Config.Gateway hosts %s (set Config.Gateway at one of its hosts)", g.options.kind)
	case err != nil:
		return fails(unknown, "it may have run", cmp.Or(context.Cause(ctx), err))
	}
	c := jsonCall{Outcome: cmp.Or(answer.Header.Get("Shard-Outcome"), executed)}
	if text := answer.Header.Get("Shard-Error"); text != "" {
		return c, fmt.Errorf("%s (outcome: %s)", text, c.Outcome)
	}
	c.Result = json.RawMessage(cmp.Or(string(answer.Data), "{}"))
	return c, nil
}

func (g gatewayCall) request(ctx context.Context) *nats.Msg {
	o := g.options
	m := nats.NewMsg(fmt.Sprintf("sh.%s.g.%s.%s.%s.%s", o.cluster, g.caller, o.kind, o.method, transport.EscapeID(o.id)))
	m.Reply = "_INBOX." + g.caller + "." + nats.NewInbox()[len(nats.InboxPrefix):]
	m.Data = []byte(cmp.Or(o.arguments, "{}"))
	m.Header.Set("Content-Type", "application/json")
	if o.command != "" {
		m.Header.Set("Idempotency-Key", o.command)
	}
	if at, ok := ctx.Deadline(); ok {
		m.Header.Set("Shard-Timeout", time.Until(at).Truncate(time.Millisecond).String())
	}
	return m
}

// accepted returns an error if the server has refused a message sent so far. The server answers in
// order, so a refusal precedes the answer to the flush.
func (g gatewayCall) accepted(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded { // FlushWithContext wants one
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, flushTimeout)
		defer cancel()
	}
	flushed := g.conn.FlushWithContext(ctx)
	err := g.conn.LastError()
	if errors.Is(err, nats.ErrPermissionViolation) {
		return fmt.Errorf("%w (not executed; grant the right: shardctl permissions gateway -cluster %s -name %s prints all rights of a caller; is -name the caller's name?)",
			err, g.options.cluster, cmp.Or(g.options.name, "NAME"))
	}
	return flushed
}

// flushTimeout bounds one round trip to the server.
const flushTimeout = 5 * time.Second

// printCall prints the results of a call, or returns the error of a call that has none. With -json
// it prints the error, too.
func printCall(w io.Writer, o *options, c jsonCall, err error) error {
	if o.json {
		c.Type, c.ID, c.Method = o.kind, o.id, o.method
		if err != nil {
			c.Error = err.Error()
		}
		return errors.Join(err, printJSON(w, c))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", c.Result)
	return err
}
