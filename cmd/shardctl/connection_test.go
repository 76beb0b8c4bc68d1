package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
)

// testUser and testSeed are the NKey of a user that only the test's server knows.
const (
	testUser = "UCEPUCGTXJZHK7LKDJ45N6QRU4CZCAUT7OZRJUM5SYWC4P7IW3QDJCRT"
	testSeed = "SUAKPWF7RSRWI4HSVWXGVKX54KK22OBPH7BCWF75R4P44DEG3MHFRCPWIA"
)

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeCertificate makes a self-signed certificate for a server and a client on 127.0.0.1.
func writeCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	certDER, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certDER})),
		writeFile(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// TestClientCertificateAndNKey: a server that asks for a client certificate and an NKey accepts
// those of the flags.
func TestClientCertificateAndNKey(t *testing.T) {
	cert, key := writeCertificate(t)
	seed := writeFile(t, "user.nk", []byte(testSeed))
	config := writeFile(t, "server.conf", fmt.Appendf(nil,
		"authorization { users: [{nkey: %s}] }\ntls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }\n", testUser, cert, key, cert))
	server := natsproc.Start(t, "-c", config)
	base := "members -timeout 3s -cluster c -nats " + strings.Replace(server.URL(), "nats://", "tls://", 1) + " -ca " + cert
	withCert := base + " -cert " + cert + " -key " + key
	const connected = "no process of this cluster answers"
	for _, tt := range []struct{ args, stderr string }{
		{base + " -nkey " + seed, "reach cluster c"}, // the server may hang up before it says why
		{withCert, "uthorization"},
		{withCert + " -nkey " + seed, connected},
	} {
		shardctl(t, nil, tt.args).check(t, tt.args, exitFailed, "", tt.stderr)
	}
}

// TestContexts: the values of flags that are not given come from a context of the nats command.
// Without -context that is the context selected by nats context select.
func TestContexts(t *testing.T) {
	cert, key := writeCertificate(t)
	home := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(home, ".config", "nats", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	config := writeFile(t, "server.conf", fmt.Appendf(nil,
		"authorization { users: [{nkey: %s}, {user: ann, password: secret}] }\ntls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }\n", testUser, cert, key, cert))
	server := natsproc.Start(t, "-c", config)
	url := strings.Replace(server.URL(), "nats://", "tls://", 1)
	write("user.nk", testSeed)
	write("context/nkey.json", fmt.Sprintf(`{"description": "shop", "url": %q, "nkey": "~/.config/nats/user.nk", "ca": %q, "cert": "$CERT", "key": %q, "inbox_prefix": "x"}`, url, cert, key))
	write("context/password.json", fmt.Sprintf(`{"url": %q, "user": "ann", "password": "secret", "ca": %q, "cert": %q, "key": %q}`, url, cert, cert, key))
	write("context/wrong.json", fmt.Sprintf(`{"url": %q, "user": "ann", "password": "guess", "ca": %q, "cert": %q, "key": %q}`, url, cert, cert, key))
	write("context/elsewhere.json", `{"url": "nats://127.0.0.1:1"}`)
	write("context/nsc.json", `{"nsc": "nsc://a/b/c"}`)
	write("context/broken.json", `{"url":`)
	const members, connected = "members -timeout 3s -cluster c", "no process of this cluster answers"
	for _, tt := range []struct {
		args, selected, env string
		code                int
		stderr              string
	}{
		{members + " -context nkey", "", "", exitFailed, connected},
		{members + " -context password", "elsewhere", "", exitFailed, connected},
		{members + " -context wrong", "", "", exitFailed, "uthorization"},
		{members + " -context wrong -nkey " + filepath.Join(home, ".config/nats/user.nk"), "", "", exitFailed, connected},
		{members, "", "nkey", exitFailed, connected},
		{members, "nkey\n", "", exitFailed, connected},
		{members + " -nats nats://127.0.0.1:1", "nkey", "", exitFailed, "127.0.0.1:1"},
		{members + " -context none", "", "", exitUsage, "there is no file"},
		{members + " -context ../nkey", "", "", exitUsage, "want the name of a context"},
		{members + " -context nsc", "", "", exitUsage, "give -creds"},
		{members + " -context broken", "", "", exitUsage, "broken.json"},
	} {
		write("context.txt", tt.selected)
		env := map[string]string{"HOME": home, "CERT": cert, "NATS_CONTEXT": tt.env}
		shardctl(t, env, tt.args).check(t, tt.args, tt.code, "", tt.stderr)
	}
	write("context.txt", "nkey")
	env := map[string]string{"HOME": "/nowhere", "XDG_CONFIG_HOME": filepath.Join(home, ".config"), "CERT": cert}
	shardctl(t, env, members).check(t, "a folder of XDG_CONFIG_HOME", exitFailed, "", "/nowhere/.config/nats/user.nk")
}

func TestConnectionFlags(t *testing.T) {
	for _, tt := range []struct{ args, stderr string }{
		{"members -cluster c -cert a", "-cert and -key"},
		{"members -cluster c -key a", "-cert and -key"},
		{"members -cluster c -creds a -nkey b", "-creds and -nkey"},
		{"store list -creds a -nkey b", "-creds and -nkey"},
	} {
		shardctl(t, nil, tt.args).check(t, tt.args, exitUsage, "", tt.stderr)
	}
	shardctl(t, nil, "members -cluster c -nkey /nowhere").check(t, "-nkey /nowhere", exitFailed, "", "/nowhere")
}
