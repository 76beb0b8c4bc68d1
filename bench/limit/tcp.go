package limit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// A frame is the length of its body (4 bytes), its kind (1 byte) and the body: a batch of calls,
// answers or one-way envelopes, or a count of arrived envelopes.
const (
	frameHeaderBytes = 5
	kindCalls        = 0
	kindTells        = 1
)

func writeFrame(conn net.Conn, kind byte, body []byte) error {
	header := append(binary.LittleEndian.AppendUint32(make([]byte, 0, frameHeaderBytes), uint32(len(body))), kind)
	_, err := (&net.Buffers{header, body}).WriteTo(conn)
	return err
}

// readFrame reads a frame. The returned body is in the slice memory if it fits there.
func readFrame(r *bufio.Reader, memory []byte) (kind byte, body []byte, err error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.LittleEndian.Uint32(header[:]))
	if n > cap(memory) {
		memory = make([]byte, n)
	}
	body = memory[:n]
	_, err = io.ReadFull(r, body)
	return header[4], body, err
}

// A TCP makes calls and sends one-way envelopes, in batches, on a TCP connection of its own instead
// of a broker.
type TCP struct {
	Requester *Requester
	Teller    *Teller

	conn   net.Conn
	pump   func() // stops it
	reader sync.WaitGroup
}

// DialTCP connects to a process that runs ServeTCP. fail gets errors of the connection.
func DialTCP(address string, fail func(error)) (*TCP, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	t := &TCP{conn: conn}
	t.Requester = newRequester(func(batch []byte) error { return writeFrame(conn, kindCalls, batch) })
	t.Teller = newTeller(func(batch []byte) error { return writeFrame(conn, kindTells, batch) })
	t.pump = t.Teller.out.pump(fail)
	t.reader.Go(func() {
		if err := t.read(); !errors.Is(err, net.ErrClosed) {
			fail(fmt.Errorf("read from %s: %w", address, err))
		}
	})
	return t, nil
}

func (t *TCP) read() error {
	r := bufio.NewReaderSize(t.conn, maxBatch)
	for {
		kind, body, err := readFrame(r, nil) // memory of its own: callers keep their answers
		if err != nil {
			return err
		}
		if kind == kindTells {
			err = t.Teller.acknowledged(body)
		} else {
			err = t.Requester.answered(body)
		}
		if err != nil {
			return err
		}
	}
}

// Close disconnects. No call may be under way.
func (t *TCP) Close() {
	t.pump()
	_ = t.conn.Close()
	t.reader.Wait()
}

// ServeTCP answers every call with its payload and counts one-way envelopes. It returns when l is
// closed and all connections have ended. fail gets errors of connections.
func ServeTCP(l net.Listener, fail func(error)) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		conns.Go(func() {
			defer func() { _ = conn.Close() }()
			if err := serveConn(conn); !errors.Is(err, io.EOF) {
				fail(fmt.Errorf("serve %s: %w", conn.RemoteAddr(), err))
			}
		})
	}
}

// serveConn answers a connection's calls. It returns io.EOF when the caller disconnects.
func serveConn(conn net.Conn) error {
	r := bufio.NewReaderSize(conn, maxBatch)
	var frame, replies []byte
	var told counter
	for {
		kind, body, err := readFrame(r, frame)
		if err != nil {
			return err
		}
		frame = body
		due := true
		if kind == kindTells {
			due, err = told.count(body)
			replies = binary.LittleEndian.AppendUint64(replies[:0], told.arrived)
		} else {
			replies, err = appendReplies(replies[:0], body)
		}
		if err == nil && due {
			err = writeFrame(conn, kind, replies)
		}
		if err != nil {
			return err
		}
	}
}
