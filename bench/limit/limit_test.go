package limit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
)

// A flush does not wait for an envelope that another caller has counted but not written, because
// the receiver acknowledges that envelope only together with many others.
func TestFlushBesideATell(t *testing.T) {
	var told counter
	var teller *Teller
	teller = newTeller(func(batch []byte) error {
		if _, err := told.count(batch); err != nil {
			return err
		}
		return teller.acknowledged(binary.LittleEndian.AppendUint64(nil, told.arrived))
	})
	teller.sent.Add(1)
	if err := teller.Flush(); err != nil { // hangs otherwise
		t.Fatal(err)
	}
}

// Each of many callers on one TCP connection gets its own answers, and everything told arrives.
func TestTCP(t *testing.T) {
	const callers, each = 64, 200
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fail := func(err error) { t.Error(err) }
	var server sync.WaitGroup
	defer server.Wait()
	server.Go(func() {
		if err := ServeTCP(l, fail); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want %v", err, net.ErrClosed)
		}
	})
	defer func() { _ = l.Close() }()
	c, err := DialTCP(l.Addr().String(), fail)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for call := range each {
				want := fmt.Appendf(nil, "caller %d call %d", caller, call)
				if got, err := c.Requester.Ask(want); err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %q, %v, want %q", got, err, want)
					return
				}
				if err := c.Teller.Tell(want); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := c.Teller.Flush(); err != nil {
		t.Fatal(err)
	}
	if sent, arrived := c.Teller.Counts(); arrived != sent || sent != callers*each+1 {
		t.Errorf("%d of %d envelopes arrived, want %d", arrived, sent, callers*each+1)
	}
}
