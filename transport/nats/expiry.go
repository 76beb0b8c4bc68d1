package natstransport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/transport"
)

// expiries returns when the certificates and credentials of a connection end.
func expiries(o *nats.Options, nc *nats.Conn) (all []transport.Expiry) {
	if state, err := nc.TLSConnectionState(); err == nil && len(state.PeerCertificates) > 0 {
		c := state.PeerCertificates[0]
		all = append(all, transport.Expiry{What: "the broker's certificate, as it was when this process connected,", From: c.NotBefore, Until: c.NotAfter, Seen: true})
	}
	if c := ownCertificate(o); c != nil {
		all = append(all, transport.Expiry{What: "the certificate of this process for the broker", From: c.NotBefore, Until: c.NotAfter})
	}
	if o.UserJWT != nil {
		if token, err := o.UserJWT(); err == nil {
			if from, until, ok := lifeOf(token); ok {
				all = append(all, transport.Expiry{What: "the JWT of this process for the broker", From: from, Until: until})
			}
		}
	}
	return all
}

// ownCertificate returns the certificate that the process shows to a server, or nil.
func ownCertificate(o *nats.Options) *x509.Certificate {
	var pair tls.Certificate
	var err error
	switch {
	case o.TLSCertCB != nil:
		pair, err = o.TLSCertCB()
	case o.TLSConfig != nil && len(o.TLSConfig.Certificates) > 0:
		pair = o.TLSConfig.Certificates[0]
	}
	if err != nil || len(pair.Certificate) == 0 {
		return nil
	}
	c, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil
	}
	return c
}

// lifeOf returns when a JWT was issued and when it ends. ok is false if it has no end.
func lifeOf(token string) (from, until time.Time, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return from, until, false
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		From  int64 `json:"iat"`
		Until int64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(body, &claims) != nil || claims.Until == 0 {
		return from, until, false
	}
	if claims.From != 0 {
		from = time.Unix(claims.From, 0)
	}
	return from, time.Unix(claims.Until, 0), true
}
