package direct

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/driver/direct/agree"
	"github.com/shardgen/shardgen/transport"
)

const lengthBytes = 4

var errClosed = errors.New("the direct lane has ended")

// A Conn carries one lane's frames to and from one peer. Send and Fail are safe for concurrent use.
// Only one goroutine at a time may receive.
type Conn struct {
	peer  transport.Peer
	lane  int
	id    uint64
	tls   *tls.Conn
	out   *outlet
	in    *bufio.Reader
	limit func() int // returns the size of the largest frame, in bytes
	born  time.Time
	used  atomic.Bool // a frame was sent or received
	heard atomic.Bool // a frame was received since the last stall
	// stalledAt is when the connection last stalled, in nanoseconds after born; 0 means never.
	stalledAt atomic.Int64
	ended     atomic.Bool
	why       atomic.Uint32 // 1 + the agree.Reason of the end; 0 before the end

	mu  sync.Mutex // guards sending
	buf []byte     // the current frame with its length
}

// Peer returns the process at the other end, as its key proves.
func (c *Conn) Peer() transport.Peer { return c.peer }

// Lane returns the lane whose frames the connection carries.
func (c *Conn) Lane() int { return c.lane }

// Send sends a frame, and does not keep it. It does not block. After an error the connection has
// ended, but the frame may have arrived.
func (c *Conn) Send(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended.Load() {
		return errClosed
	}
	if !c.used.Load() {
		c.used.Store(true)
	}
	c.buf = append(binary.BigEndian.AppendUint32(c.buf[:0], uint32(len(frame))), frame...)
	err := c.out.Cork()
	if err == nil {
		_, err = c.tls.Write(c.buf)
		if uncorked := c.out.Uncork(); err == nil {
			err = uncorked
		}
	}
	if cap(c.buf) > keepBytes {
		c.buf = nil
	}
	switch {
	case errors.Is(err, errCrowded):
		c.Fail(agree.Crowded)
	case err != nil:
		c.Fail(agree.Broken)
	}
	return err
}

// A first stall does not end a connection: all connections of a process seem to stall while the
// process is not scheduled.
const (
	// stallsApart is the time in which a second stall ends the connection.
	stallsApart = 5 * time.Second
	// stallPatience is how long nothing may arrive on a connection after a stall.
	stallPatience = time.Second
)

// Stalled records a stall: the peer acknowledges nothing. The connection ends if nothing arrives on
// it within stallPatience after a stall, or if a second stall comes within stallsApart.
func (c *Conn) Stalled() {
	now := int64(time.Since(c.born))
	last := c.stalledAt.Swap(now)
	c.heard.Store(false)
	if last != 0 && now-last < int64(stallsApart) {
		c.Fail(agree.Stalled)
	}
}

// IsHeard reports whether the connection has never stalled, or frames have arrived since the last
// stall.
func (c *Conn) IsHeard() bool { return c.stalledAt.Load() == 0 || c.heard.Load() }

// checkStall ends the connection if nothing arrived for stallPatience since it stalled.
func (c *Conn) checkStall() {
	at := c.stalledAt.Load()
	if at != 0 && !c.heard.Load() && int64(time.Since(c.born))-at >= int64(stallPatience) {
		c.Fail(agree.Stalled)
	}
}

// Fail ends the connection with the given reason, unless the connection has already ended. Then
// Receive returns an error on the receiving goroutine. Fail does not wait for that.
func (c *Conn) Fail(why agree.Reason) {
	if c.why.CompareAndSwap(0, uint32(why)+1) {
		c.ended.Store(true)
		_ = c.out.Close()
	}
}

// Why returns the reason why the connection ended; Broken if it has not ended.
func (c *Conn) Why() agree.Reason {
	if why := c.why.Load(); why > 0 {
		return agree.Reason(why - 1)
	}
	return agree.Broken
}

// HasEnded reports whether the connection has ended.
func (c *Conn) HasEnded() bool { return c.ended.Load() }

// Receive waits for the next frame. It returns an error when the connection has ended.
func (c *Conn) Receive() (transport.Message, error) {
	frame, err := readFrame(c.in, c.limit)
	if err == nil && c.ended.Load() {
		err = errClosed
	}
	if err != nil {
		if errors.Is(err, errLength) {
			c.Fail(agree.Forged)
		}
		c.Fail(agree.Broken)
		return transport.Message{}, err
	}
	if !c.used.Load() {
		c.used.Store(true)
	}
	if !c.heard.Load() {
		c.heard.Store(true)
	}
	return transport.Message{Payload: frame, From: c.peer.Address}, nil
}

// TryReceive is Receive, but does not wait: ok is false unless a whole frame has arrived.
func (c *Conn) TryReceive() (m transport.Message, ok bool) {
	if c.in.Buffered() < lengthBytes || c.ended.Load() {
		return m, false
	}
	length, err := c.in.Peek(lengthBytes)
	if err != nil || c.in.Buffered() < lengthBytes+int(binary.BigEndian.Uint32(length)) {
		return m, false
	}
	m, err = c.Receive()
	return m, err == nil
}

var errLength = errors.New("the length of a frame is out of bounds")

// growBy bounds the memory allocated for a frame before its bytes have arrived.
const growBy = 64 << 10

func readFrame(r *bufio.Reader, limit func() int) ([]byte, error) {
	head, err := r.Peek(lengthBytes)
	if err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head)
	if length == 0 || length > growBy && int64(length) > int64(limit()) {
		return nil, fmt.Errorf("%w: %d bytes", errLength, length)
	}
	_, _ = r.Discard(lengthBytes) // they are there
	n := int(length)
	frame := make([]byte, min(n, growBy))
	for read := 0; ; {
		m, err := io.ReadFull(r, frame[read:])
		if err != nil {
			return nil, err
		}
		if read += m; read == n {
			return frame, nil
		}
		larger := make([]byte, min(n, 2*len(frame)))
		copy(larger, frame)
		frame = larger
	}
}

func newConn(c *tls.Conn, out *outlet, limit func() int) *Conn {
	return &Conn{born: time.Now(), tls: c, out: out, in: bufio.NewReaderSize(c, readAhead), limit: limit}
}
