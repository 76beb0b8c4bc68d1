package natstransport_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestExpiries: a link returns when the server's certificate, its own certificate and its JWT end.
func TestExpiries(t *testing.T) {
	cert, key := writeCertificate(t)
	s := natsproc.Start(t, "--tls", "--tlscert", cert, "--tlskey", key)
	token := func() (string, error) {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"iat": 1000, "exp": 2000}`)) + ".sig", nil
	}
	sign := func([]byte) ([]byte, error) { return []byte("sig"), nil }
	l, _ := openStates(t, strings.Replace(s.URL(), "nats://", "tls://", 1), natstransport.ConnectOptions(nats.RootCAs(cert), nats.ClientCert(cert, key), nats.UserJWT(token, sign)))
	all := l.(transport.Expiring).Expiries()
	require.Len(t, all, 3)
	for _, e := range all[:2] {
		require.WithinDuration(t, time.Now().Add(-time.Hour), e.From, time.Minute, e.What)
		require.WithinDuration(t, time.Now().Add(time.Hour), e.Until, time.Minute, e.What)
	}
	require.True(t, all[0].Seen, "the server may have another one by now")
	require.False(t, all[1].Seen)
	require.Equal(t, transport.Expiry{What: "the JWT of this process for the broker", From: time.Unix(1000, 0), Until: time.Unix(2000, 0)}, all[2])

	plain := natsproc.Start(t)
	l, _ = openStates(t, plain.URL(), natstransport.ConnectOptions(nats.UserJWT(func() (string, error) { return "no token", nil }, sign)))
	require.Empty(t, l.(transport.Expiring).Expiries())
}
