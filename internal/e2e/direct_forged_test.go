package e2e

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/internal/wire/rights"
	"github.com/shardgen/shardgen/transport"
)

// A laneLiar is a client that sets up direct lanes with a member by itself, in order to abuse them.
type laneLiar struct {
	*role
	self    transport.Peer
	home    transport.Address
	port    string
	answers *nats.Subscription
	key     tls.Certificate
}

// newKey makes a key like the one that a process makes when it starts.
func newKey(t *testing.T) tls.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}
}

// offer sends the member an offer of a direct lane with the liar's key.
func (l *laneLiar) offer(t *testing.T, lane uint32, nonce []byte) {
	t.Helper()
	hash := sha256.Sum256(l.key.Leaf.RawSubjectPublicKeyInfo)
	body, err := proto.Marshal(&wire.Direct{Offer: &wire.DirectOffer{Lane: lane, Nonce: nonce, Key: hash[:]}})
	require.NoError(t, err)
	require.NoError(t, l.Publish(fmt.Sprintf("sh.e2e.c.evil.%016x.%s.%016x.ctl", l.self.Incarnation, l.home.Name, l.home.Incarnation),
		wire.SealControl("e2e", l.self, wire.ControlTopic_CONTROL_TOPIC_DIRECT, body)))
}

// agree offers the member a direct lane, and returns the lane's nonce once the member has accepted.
func (l *laneLiar) agree(t *testing.T) (nonce []byte) {
	t.Helper()
	nonce = make([]byte, 16)
	_, _ = rand.Read(nonce)
	l.offer(t, 0, nonce)
	for {
		m, err := l.answers.NextMsg(10 * time.Second)
		require.NoError(t, err, "the offer is not answered")
		_, topic, body, err := wire.OpenControl("e2e", m.Data)
		if err != nil || topic != wire.ControlTopic_CONTROL_TOPIC_DIRECT {
			continue
		}
		var d wire.Direct
		require.NoError(t, proto.Unmarshal(body, &d))
		if d.GetAccept() != nil {
			require.Equal(t, nonce, d.GetAccept().GetNonce())
			return nonce
		}
	}
}

// recorder records the bytes that are written to a connection.
type recorder struct {
	net.Conn
	written bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) {
	r.written.Write(b)
	return r.Conn.Write(b)
}

// dial connects to the port and shows a key and a nonce. An error means that the member has refused them.
func (l *laneLiar) dial(t *testing.T, key tls.Certificate, nonce []byte) (*tls.Conn, *recorder, error) {
	t.Helper()
	c, err := net.Dial("tcp", l.port)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	kept := &recorder{Conn: c}
	secure := tls.Client(kept, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, Certificates: []tls.Certificate{key}})
	if _, err := secure.Write(append([]byte{1}, nonce...)); err != nil {
		return nil, nil, err
	}
	if _, err := io.ReadFull(secure, make([]byte, 1)); err != nil {
		return nil, nil, err
	}
	return secure, kept, nil
}

// TestHostileDirectForged: a client that may have direct lanes misuses them. It shows keys that it
// has not announced, and nonces and recordings of earlier connections. It sends frames in another's
// name, and offers that nobody accepts. All are refused and counted, and few are logged. The calls
// of other clients stay on their direct lanes.
func TestHostileDirectForged(t *testing.T) {
	c := directLanes(t, map[string]rights.Rights{
		"worker": rights.Worker("e2e", ""), "web": rights.Client("e2e", "web"), "evil": rights.Client("e2e", "evil"),
	})
	address := transport.Address{Name: "evil", Incarnation: identity.Mark(identity.Client, 1)}
	evil := &laneLiar{
		role: newRole(t, hostile.URL(c.server, "evil"), "_INBOX"), self: transport.Peer{Address: address, Client: true},
		home: addressOf(t, c.home, "a"), port: c.port, key: newKey(t),
	}
	var err error
	evil.answers, err = evil.SubscribeSync("sh.e2e.r.c.evil.>")
	require.NoError(t, err)
	strangers := func() uint64 { return c.home.Counters()["direct lane stranger"] }
	forged := func() uint64 { return c.home.Counters()["direct lane ended: forged frame"] }

	const rounds = 20
	tries := uint64(0)
	for range rounds {
		nonce := evil.agree(t)
		_, _, err := evil.dial(t, newKey(t), nonce)
		require.Error(t, err, "a key that was not announced")
		lane, recorded, err := evil.dial(t, evil.key, nonce)
		require.NoError(t, err, "the key that was announced")
		_, _, err = evil.dial(t, evil.key, nonce)
		require.Error(t, err, "a nonce that was used")
		replay, err := net.Dial("tcp", evil.port)
		require.NoError(t, err)
		_, _ = replay.Write(recorded.written.Bytes())
		_, _ = io.Copy(io.Discard, replay) // the member's part of the handshake, until it closes the connection
		_ = replay.Close()
		tries += 3
		await(t.Context(), t, "they are counted", func() bool { return strangers() == tries })

		h := wire.FrameHeader{Version: wire.FrameVersion, From: transport.Peer{Address: transport.Address{Name: "web", Incarnation: address.Incarnation}, Client: true}, Seq: 1, Window: 1 << 20, Hello: 1}
		frame := wire.AppendFrameHeader(nil, &h)
		_, err = lane.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, lane)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "a connection with a forged sender goes on")
		await(t.Context(), t, "it is counted", func() bool { return forged() == tries/3 })
		c.call(t)
	}
	nonce := evil.agree(t)
	for range rounds { // in each round, one attempt for each reason
		evil.offer(t, 0, nonce)
		evil.offer(t, 99, nonce)
	}
	await(t.Context(), t, "refused offers are counted", func() bool { return c.home.Counters()["direct lane refused"] == 2*rounds })
	log := c.workers.log.String()
	for line, most := range map[string]int{ // of 60, of 20 and of 40
		"connection to the port of direct lanes refused": 6, "direct lane ended; calls go on over the broker": 5, "direct lane refused; calls go on over the broker": 8,
	} {
		n := strings.Count(log, line)
		require.NotZero(t, n, line)
		require.LessOrEqual(t, n, most, line)
	}
	require.Equal(t, forged(), endedLanes(c.home), "the other client has lost its direct lane")
	before := c.directFrames()
	await(t.Context(), t, "calls go directly", func() bool { c.call(t); return c.directFrames() > before })
	require.NoError(t, c.home.Err())
}
