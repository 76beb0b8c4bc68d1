package direct

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/shardgen/shardgen/internal/driver/direct/agree"
)

// version is the version of the handshake. After the TLS handshake, the dialing process sends
// version and nonce, and the listening process answers with version.
const version = 1

var errVersion = errors.New("the peer speaks another version of direct lanes")

func dial(ctx context.Context, id *keyPair, d agree.Dial, most int, spawn func(func()), limit func() int) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, agree.DialFor)
	defer cancel()
	c, err := DialerOf(ctx).DialContext(ctx, "tcp", d.Address)
	if err != nil {
		return nil, err
	}
	out := newOutlet(c, most, spawn)
	secure := tls.Client(out, id.config(func(k agree.Key) bool { return k == d.Key }))
	if err := greet(ctx, c, secure, d.Nonce); err != nil {
		_ = c.Close()
		return nil, err
	}
	return newConn(secure, out, limit), nil
}

func greet(ctx context.Context, c net.Conn, secure *tls.Conn, nonce agree.Nonce) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	if err := secure.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if _, err := secure.Write(append([]byte{version}, nonce[:]...)); err != nil {
		return fmt.Errorf("greet: %w", err)
	}
	var answer [1]byte
	if _, err := io.ReadFull(secure, answer[:]); err != nil {
		return fmt.Errorf("greet: %w", err)
	}
	if answer[0] != version {
		return fmt.Errorf("greet: %w: %d", errVersion, answer[0])
	}
	if !stop() {
		return fmt.Errorf("greet: %w", ctx.Err())
	}
	return nil
}

// greeted carries out the handshake at the listening process. It returns the key and the nonce that
// the dialing process has shown.
func greeted(secure *tls.Conn) (key agree.Key, nonce agree.Nonce, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), agree.DialFor)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		return key, nonce, fmt.Errorf("handshake: %w", err)
	}
	if err := secure.SetReadDeadline(time.Now().Add(agree.DialFor)); err != nil {
		return key, nonce, err
	}
	greeting := make([]byte, 1+len(nonce))
	if _, err := io.ReadFull(secure, greeting); err != nil {
		return key, nonce, fmt.Errorf("greet: %w", err)
	}
	if greeting[0] != version {
		return key, nonce, fmt.Errorf("greet: %w: %d", errVersion, greeting[0])
	}
	copy(nonce[:], greeting[1:])
	return hashOf(secure.ConnectionState().PeerCertificates[0]), nonce, secure.SetReadDeadline(time.Time{})
}
