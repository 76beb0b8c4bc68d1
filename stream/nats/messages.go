package natsstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/stream"
)

// messages reads one partition through a consumer of its own.
type messages struct {
	source   *Source
	consumer string
	sub      *nats.Subscription
	missed   uint64
	last     uint64 // stream sequence of the last message
	serial   uint64 // consumer sequence of the last message
	pulled   int    // messages that were requested and have not come
	failed   atomic.Pointer[error]
}

// failLocked ends reading. The caller holds the source's lock.
func (m *messages) failLocked(why error) {
	m.failed.CompareAndSwap(nil, &why)
	delete(m.source.open, m)
	_ = m.sub.Unsubscribe() // which wakes Next
}

// Close implements [stream.Messages].
func (m *messages) Close() {
	s := m.source
	s.mu.Lock()
	open := s.open[m]
	m.failLocked(nats.ErrConnectionClosed)
	s.mu.Unlock()
	if open && s.nc.IsConnected() {
		_ = s.nc.Publish(s.api+"CONSUMER.DELETE."+s.cfg.Stream+"."+m.consumer, nil) // otherwise the server deletes it later as unused
	}
}

// Missed implements [stream.Messages].
func (m *messages) Missed() uint64 { return m.missed }

type pull struct {
	Batch     int           `json:"batch"`
	Bytes     int           `json:"max_bytes"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
}

// request requests messages if fewer than half of pullMessages are under way. The first request
// asks for no more messages than the number most, because a reader may want only one message.
func (m *messages) request(most int) error {
	if m.pulled >= pullMessages/2 || m.pulled > 0 && m.serial == 0 {
		return nil
	}
	n := pullMessages
	if m.serial == 0 {
		n = min(n, most)
	}
	// Subjects and headers count as bytes of a message.
	bytes := max(pullBytes, 2*int(m.source.nc.MaxPayload()))
	body, err := json.Marshal(pull{n, bytes, pullExpires, heartbeat})
	if err != nil {
		return err
	}
	m.pulled += n
	return m.source.nc.PublishRequest(m.source.api+"CONSUMER.MSG.NEXT."+m.source.cfg.Stream+"."+m.consumer, m.sub.Subject, body)
}

// Next implements [stream.Messages].
func (m *messages) Next(ctx context.Context, most int) (all []stream.Message, err error) {
	fail := func(err error) ([]stream.Message, error) {
		if why := m.failed.Load(); why != nil {
			err = *why
		}
		return nil, fmt.Errorf("stream %s: %w", m.source.cfg.Stream, err)
	}
	for {
		if err := m.request(most); err != nil {
			return fail(err)
		}
		wait, cancel := context.WithTimeout(ctx, silence)
		next, err := m.sub.NextMsgWithContext(wait)
		cancel()
		if err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				err = errSilent
			}
			return fail(err)
		}
		there, _, _ := m.sub.Pending()
		for {
			one, ok, err := m.take(next)
			switch {
			case err != nil && len(all) > 0:
				m.source.mu.Lock()
				m.failLocked(err) // the next call of Next fails
				m.source.mu.Unlock()
				return all, nil
			case err != nil:
				return fail(err)
			case ok:
				all = append(all, one)
			}
			if there--; there < 0 || len(all) == most {
				break
			}
			if next, err = m.sub.NextMsg(time.Second); err != nil {
				break
			}
		}
		if len(all) > 0 {
			return all, nil
		}
	}
}

var (
	errSilent = errors.New("the consumer is silent (the server has lost it)")
	errGap    = errors.New("messages were lost on their way")
)

// take decodes a message of the stream. ok is false for a message about a request.
func (m *messages) take(raw *nats.Msg) (one stream.Message, ok bool, err error) {
	if len(raw.Data) == 0 {
		if status := raw.Header.Get("Status"); status != "" {
			return one, false, m.status(status, raw)
		}
	}
	m.pulled--
	position, serial, at, err := parseReply(raw.Reply)
	if err != nil {
		return one, false, err
	}
	if serial != m.serial+1 {
		return one, false, errGap
	}
	if len(m.source.cfg.Subjects) == 0 && position > m.last+1 {
		m.missed += position - m.last - 1
	}
	m.serial, m.last = serial, position
	return stream.Message{Position: position, Subject: raw.Subject, Header: raw.Header, Data: raw.Data, Time: at}, true, nil
}

// status handles a message about a request.
func (m *messages) status(status string, raw *nats.Msg) error {
	text := raw.Header.Get("Description")
	switch {
	case status == "100":
		return nil
	case status == "408" || status == "409" && (strings.EqualFold(text, "Batch Completed") || strings.EqualFold(text, "Message Size Exceeds MaxBytes")):
		left, err := strconv.Atoi(raw.Header.Get("Nats-Pending-Messages"))
		if err != nil {
			left = pullMessages
		}
		m.pulled -= min(left, m.pulled)
		return nil
	}
	return fmt.Errorf("%s %s", status, text)
}

// parseReply returns a message's stream sequence, consumer sequence and time from its reply subject
// (ADR-15 of NATS):
// $JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>.<consumer sequence>.<time>.<pending>,
// with <domain>.<account> before the stream in newer forms.
func parseReply(reply string) (position, serial uint64, at time.Time, err error) {
	t := strings.Split(reply, ".")
	switch {
	case len(t) >= 11:
		t = t[4:]
	case len(t) == 9:
		t = t[2:]
	default:
		return 0, 0, at, fmt.Errorf("the message's reply subject %q is not JetStream's", reply)
	}
	position, err1 := strconv.ParseUint(t[3], 10, 64)
	serial, err2 := strconv.ParseUint(t[4], 10, 64)
	nanos, err3 := strconv.ParseInt(t[5], 10, 64)
	return position, serial, time.Unix(0, nanos), errors.Join(err1, err2, err3)
}
