package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
)

// makeTLS writes a certificate authority and a server certificate, valid from yesterday to
// tomorrow, to dir.
func makeTLS(dir string, addresses []net.IP) (natsproc.TLS, error) {
	files := natsproc.TLS{
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server.key"),
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of the run"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "servers of the run"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, IPAddresses: addresses,
		KeyUsage: x509.KeyUsageDigitalSignature,
		// The certificate is for clients too, because servers dial each other.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files, err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &signer.PublicKey, signer)
	if err != nil {
		return files, fmt.Errorf("certificate of the authority: %w", err)
	}
	certDER, err := x509.CreateCertificate(rand.Reader, server, authority, &key.PublicKey, signer)
	if err != nil {
		return files, fmt.Errorf("certificate of the servers: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return files, err
	}
	for _, f := range []struct {
		path  string
		block pem.Block
	}{
		{files.CA, pem.Block{Type: "CERTIFICATE", Bytes: caDER}},
		{files.Cert, pem.Block{Type: "CERTIFICATE", Bytes: certDER}},
		{files.Key, pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}},
	} {
		if err := os.WriteFile(f.path, pem.EncodeToMemory(&f.block), 0o600); err != nil {
			return files, err
		}
	}
	return files, nil
}
