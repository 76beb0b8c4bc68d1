package direct

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"syscall"
)

var errCrowded = errors.New("the peer reads too slowly: too many bytes wait to be written")

// An outlet is the socket under a TLS connection. Write never blocks: a goroutine writes what the
// socket does not take. It is safe for concurrent use.
type outlet struct {
	net.Conn
	in    *bufio.Reader
	raw   syscall.RawConn // nil: the goroutine writes everything
	spawn func(func())
	most  int                // limit of waiting bytes, above which no frame begins; the goroutine may hold as many again
	try   func(uintptr) bool // writes waiting bytes; made once, to avoid an allocation at each write

	mu       sync.Mutex
	corked   bool   // Write only buffers, so that the TLS records of a frame go in one system call
	waiting  []byte // bytes that are not written yet
	wrote    int    // how many waiting bytes try has written
	draining bool   // the goroutine is running
	err      error  // of the socket, or errCrowded
}

// readAhead bounds one read from the socket, in bytes: several TLS records.
const readAhead = 64 << 10

func newOutlet(c net.Conn, most int, spawn func(func())) *outlet {
	o := &outlet{Conn: c, in: bufio.NewReaderSize(c, readAhead), spawn: spawn, most: most}
	if s, ok := c.(syscall.Conn); ok && canWriteNow {
		if raw, err := s.SyscallConn(); err == nil {
			o.raw = raw
		}
	}
	o.try = func(fd uintptr) bool {
		o.wrote, o.err = writeNow(fd, o.waiting)
		return true // do not wait for room
	}
	return o
}

func (o *outlet) Read(b []byte) (int, error) { return o.in.Read(b) }

// Write writes b. It buffers what the socket does not take.
func (o *outlet) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	o.waiting = append(o.waiting, b...)
	if !o.corked {
		o.flushLocked()
	}
	if o.err != nil {
		return 0, o.err
	}
	return len(b), nil
}

// Cork makes Write only buffer bytes until Uncork is called. Cork fails if more than o.most bytes
// already wait to be written. So the buffer exceeds o.most by at most one frame.
func (o *outlet) Cork() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil && len(o.waiting) > o.most {
		o.err = errCrowded
	}
	o.corked = o.err == nil
	return o.err
}

// Uncork ends the buffering that Cork began, and writes the buffered bytes.
func (o *outlet) Uncork() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.corked = false
	o.flushLocked()
	return o.err
}

func (o *outlet) pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting)
}

const keepBytes = 256 << 10

func (o *outlet) flushLocked() {
	if o.draining || o.err != nil || len(o.waiting) == 0 {
		return
	}
	if o.raw != nil {
		o.wrote = 0
		if err := o.raw.Write(o.try); err != nil && o.err == nil {
			o.err = err
		}
		if o.err != nil {
			return
		}
		o.waiting = o.waiting[:copy(o.waiting, o.waiting[o.wrote:])]
	}
	if len(o.waiting) > 0 {
		o.draining = true
		o.spawn(o.drain)
		return
	}
	if cap(o.waiting) > keepBytes {
		o.waiting = nil
	}
}

func (o *outlet) drain() {
	var chunk []byte
	for {
		o.mu.Lock()
		chunk, o.waiting = o.waiting, chunk[:0]
		if len(chunk) == 0 || o.err != nil {
			o.draining = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		if _, err := o.Conn.Write(chunk); err != nil {
			o.mu.Lock()
			o.err = err
			o.mu.Unlock()
		}
	}
}
