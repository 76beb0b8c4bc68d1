package natstransport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

var refusals = []error{
	nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	nats.ErrNkeyAndUser, nats.ErrNkeyButNoSigCB, nats.ErrUserButNoSigCB, nats.ErrNkeysNotSupported,
	nats.ErrUserInfoAlreadySet, nats.ErrTokenAlreadySet,
}

// remedy returns the remedy for a failed attempt, and whether the same attempt can never
// succeed.
func remedy(err error) (hint string, permanent bool) {
	is := func(target error) bool { return errors.Is(err, target) }
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
	)
	switch {
	case slices.ContainsFunc(refusals, is):
		return "check the credentials in the URL or in ConnectOptions", true
	case is(nats.ErrPermissionViolation):
		return "grant this user the rights that shardctl permissions prints", true
	case is(nats.ErrSecureConnRequired), is(nats.ErrSecureConnWanted):
		return "server and client disagree about TLS: use tls:// or nats://, or ConnectOptions(nats.Secure(…))", true
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &hostname):
		return "give the authority by ConnectOptions(nats.RootCAs(…)), or correct the certificate", true
	case is(nats.ErrNoInfoReceived), is(io.EOF):
		return "does something other than NATS listen there, or does it want TLS first?", false
	case strings.Contains(err.Error(), "no such host"):
		return "correct the host name", false
	}
	return "is a NATS server running there?", false
}

func explain(err error) error {
	if isDenial(err) {
		return err // names its remedy
	}
	hint, _ := remedy(err)
	return fmt.Errorf("%w (%s)", err, hint)
}
