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

	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

type denial struct {
	cause error
	role  string // arguments of shardctl permissions
}

// Error returns the missing right, and the command that prints all rights needed.
func (e *denial) Error() string {
	return fmt.Sprintf("denied by the broker: %v (grant it: shardctl permissions %s prints the rights that this process needs)", e.cause, e.role)
}

// Unwrap returns the server's error.
func (e *denial) Unwrap() error { return e.cause }

func isDenial(err error) bool {
	var d *denial
	return errors.As(err, &d)
}

func deny(err error, role string) error {
	if !errors.Is(err, nats.ErrPermissionViolation) || isDenial(err) {
		return err
	}
	return &denial{err, role}
}

// workerRole returns the arguments of "shardctl permissions" for a member.
func workerRole(cluster string) string { return "worker -cluster " + cluster }

// roleOf returns the arguments of "shardctl permissions" for a process.
func roleOf(cluster string, self transport.Address) string {
	user := " -cluster " + cluster + " -name " + self.Name
	switch identity.Of(self.Incarnation) {
	case identity.Client:
		return "client" + user
	case identity.Reader:
		return "reader" + user
	case identity.Operator:
		return "operator" + user
	}
	return workerRole(cluster)
}

// deniedSubject returns the subject that the server refused, and whether it refused a publish.
func deniedSubject(err error) (subject string, publish bool) {
	what, quoted, ok := strings.Cut(err.Error(), `"`)
	if !ok {
		return "", false
	}
	subject, _, _ = strings.Cut(quoted, `"`)
	return subject, strings.Contains(strings.ToLower(what), "publish")
}

func refusedToPublish(err error) bool {
	_, publish := deniedSubject(err)
	return publish && errors.Is(err, nats.ErrPermissionViolation)
}

var refusals = []error{
	nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	nats.ErrNkeyAndUser, nats.ErrNkeyButNoSigCB, nats.ErrUserButNoSigCB, nats.ErrNkeysNotSupported,
	nats.ErrUserInfoAlreadySet, nats.ErrTokenAlreadySet,
}

// remedy returns the remedy for a failed attempt to connect. permanent means that no later attempt
// can succeed.
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
		return err // the error names its remedy
	}
	hint, _ := remedy(err)
	return fmt.Errorf("%w (%s)", err, hint)
}
