// Package limit has the code that shardgen is compared with: requests, batches and acknowledged
// publishes, written by hand on NATS and TCP. Remote calls cannot be faster than its batches.
package limit

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	subjectRequest = "bench.request"
	subjectBatch   = "bench.batch"
	subjectTell    = "bench.tell"
)

// Serve answers nats.Request and batches of calls, and counts one-way envelopes, until stop is
// called.
func Serve(url string) (stop func(), err error) {
	var conns []*nats.Conn
	stop = func() {
		for _, c := range conns {
			c.Close()
		}
	}
	for range 3 {
		c, err := nats.Connect(url)
		if err != nil {
			stop()
			return nil, err
		}
		conns = append(conns, c)
	}
	fail := func(err error) { fmt.Fprintln(os.Stderr, "answer:", err) }
	_, err = conns[0].Subscribe(subjectRequest, func(m *nats.Msg) {
		if err := m.Respond(m.Data); err != nil {
			fail(err)
		}
	})
	_, answer := Answer(conns[1], subjectBatch, fail)
	_, count := Count(conns[2], subjectTell, fail)
	if err := errors.Join(err, answer, count, conns[0].Flush()); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// A Hand calls a process that runs Serve. Its methods are safe for concurrent use.
type Hand struct {
	Requester *Requester
	Teller    *Teller

	request *nats.Conn
	conns   []*nats.Conn
}

// NewHand connects to the broker at url.
func NewHand(url string) (*Hand, error) {
	h := new(Hand)
	for range 3 {
		c, err := nats.Connect(url)
		if err != nil {
			h.Close()
			return nil, err
		}
		h.conns = append(h.conns, c)
	}
	fail := func(err error) { fmt.Fprintln(os.Stderr, "limit:", err) }
	var requester, teller error
	h.request = h.conns[0]
	h.Requester, _, requester = NewRequester(h.conns[1], subjectBatch, fail)
	h.Teller, _, teller = NewTeller(h.conns[2], subjectTell, fail)
	if err := errors.Join(requester, teller); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Hand) Request(payload []byte) error {
	_, err := h.request.Request(subjectRequest, payload, 10*time.Second)
	return err
}

func (h *Hand) Close() {
	for _, c := range h.conns {
		c.Close()
	}
}
