package direct

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/shardgen/shardgen/internal/driver/direct/agree"
)

type keyPair struct {
	certificate tls.Certificate
	hash        agree.Key
}

func newKeyPair() (*keyPair, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	// Peers check only the key in the certificate.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "shardgen direct lane"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &keyPair{
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf},
		hash:        hashOf(leaf),
	}, nil
}

func hashOf(c *x509.Certificate) agree.Key { return sha256.Sum256(c.RawSubjectPublicKeyInfo) }

var errWrongKey = errors.New("the peer shows a key other than the one that it announced through the broker")

// config checks only that pinned accepts the peer's key, because the certificates are self-signed.
func (k *keyPair) config(pinned func(agree.Key) bool) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{k.certificate},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // VerifyConnection compares the key
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !pinned(hashOf(s.PeerCertificates[0])) {
				return errWrongKey
			}
			return nil
		},
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
	}
}
