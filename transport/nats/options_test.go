package natstransport

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestParseURLs(t *testing.T) {
	for _, test := range []struct{ in, want, wantErr string }{
		{in: "nats://127.0.0.1:4222", want: "[nats://127.0.0.1:4222]"},
		{in: "localhost", want: "[nats://localhost]"},
		{in: "10.0.0.1:4222, tls://b.example ,", want: "[nats://10.0.0.1:4222 tls://b.example]"},
		{in: "wss://h:443/path", want: "[wss://h:443/path]"},
		{in: "nats://[::1]:4222", want: "[nats://[::1]:4222]"},
		{in: "nats://user:p%40ss@h", want: "[nats://user:p%40ss@h]"},
		{in: "", wantErr: "is empty"},
		{in: " , ", wantErr: "is empty"},
		{in: "http://h:4222", wantErr: `scheme "http"`},
		{in: "nats://", wantErr: "no host"},
		{in: "nats://:4222", wantErr: "no host"},
		{in: "nats://h:0", wantErr: "port"},
		{in: "nats://h:99999", wantErr: "port"},
		{in: "nats://h:port", wantErr: "port"},
		{in: "nats://a b:4222", wantErr: "invalid character"},
		{in: "nats://user:secret@h:99999", wantErr: `"nats://***@h:99999"`},
		{in: "nats://user:sec%zzret@h", wantErr: `"nats://***@h"`},
	} {
		got, err := parseURLs(test.in)
		if test.wantErr == "" {
			if err != nil || fmt.Sprint(got) != test.want {
				t.Errorf("parseURLs(%q) = %v, %v, want %s", test.in, got, err, test.want)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.wantErr) {
			t.Errorf("parseURLs(%q) = %v, %v, want an error with %q", test.in, got, err, test.wantErr)
		} else if strings.Contains(err.Error(), "sec") {
			t.Errorf("parseURLs(%q): error tells the password: %v", test.in, err)
		}
	}
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"nats://h:4222":                        "nats://h:4222",
		"nats://u:p@h:4222,token@i,tls://x@@j": "nats://***@h:4222,***@i,tls://***@j",
		"":                                     "",
	} {
		if got := redact(in); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
}

// The options that the link relies on cannot be changed.
func TestFixedOptions(t *testing.T) {
	tr := New("h", ConnectOptions(
		nats.ReconnectBufSize(1<<20), nats.NoEcho(), nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(7), nats.PingInterval(8), nil,
	))
	o, err := tr.natsOptions()
	if err != nil {
		t.Fatal(err)
	}
	if o.ReconnectBufSize != -1 || o.NoEcho || o.RetryOnFailedConnect || o.AllowReconnect || !o.ReconnectOnFlusherError {
		t.Errorf("options %+v lack what the link relies on", o)
	}
	if o.ReconnectWait != 7 || o.PingInterval != 8 {
		t.Errorf("ReconnectWait %v and PingInterval %v, want 7ns and 8ns as given", o.ReconnectWait, o.PingInterval)
	}
	bad := errors.New("bad option")
	if _, err := New("h", ConnectOptions(func(*nats.Options) error { return bad })).natsOptions(); !errors.Is(err, bad) {
		t.Errorf("error %v, want the option's error", err)
	}
}

func TestRemedy(t *testing.T) {
	for _, test := range []struct {
		err       error
		want      string
		permanent bool
	}{
		{nats.ErrAuthorization, "credentials", true},
		{fmt.Errorf("wrapped: %w", nats.ErrAuthExpired), "credentials", true},
		{nats.ErrPermissionViolation, "grant", true},
		{nats.ErrSecureConnWanted, "TLS", true},
		{x509.UnknownAuthorityError{}, "RootCAs", true},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, "RootCAs", true},
		{io.EOF, "other than NATS", false},
		{errors.New("lookup nowhere: no such host"), "host name", false},
		{nats.ErrNoServers, "running", false},
	} {
		if hint, permanent := remedy(test.err); !strings.Contains(hint, test.want) || permanent != test.permanent {
			t.Errorf("remedy(%v) = %q, %v, want %q, %v", test.err, hint, permanent, test.want, test.permanent)
		}
	}
}
