package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/internal/wire/rights"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// template stands for the user's name in the rights of a scoped signing key.
const template = "{{name()}}"

// scopeOf returns a signing key whose users have exactly these rights.
func scopeOf(t *testing.T, role string, r rights.Rights) (nkeys.KeyPair, *jwt.UserScope) {
	t.Helper()
	key, err := nkeys.CreateAccount()
	require.NoError(t, err)
	scope := jwt.NewUserScope()
	scope.Role = role
	scope.Key, err = key.PublicKey()
	require.NoError(t, err)
	scope.Template.Pub.Allow.Add(r.Publish...)
	scope.Template.Sub.Allow.Add(r.Subscribe...)
	return key, scope
}

// TestScopedSigningKeys: with JWTs, one signing key for each role has the printed rights. The
// client's name in them is the user's name, so a client has only its own subjects.
func TestScopedSigningKeys(t *testing.T) {
	operator, err := nkeys.CreateOperator()
	require.NoError(t, err)
	account, err := nkeys.CreateAccount()
	require.NoError(t, err)
	workers, worker := scopeOf(t, "worker", rights.Worker("e2e", ""))
	clients, client := scopeOf(t, "client", rights.Client("e2e", template))
	public := func(k nkeys.KeyPair) string {
		p, err := k.PublicKey()
		require.NoError(t, err)
		return p
	}
	o := jwt.NewOperatorClaims(public(operator))
	a := jwt.NewAccountClaims(public(account))
	a.SigningKeys.AddScopedSigner(worker)
	a.SigningKeys.AddScopedSigner(client)
	operatorJWT, err := o.Encode(operator)
	require.NoError(t, err)
	accountJWT, err := a.Encode(operator)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "listen: \"127.0.0.1:-1\"\noperator: %s\nresolver: MEMORY\nresolver_preload: { %s: %s }\n", operatorJWT, public(account), accountJWT), 0o600))
	server := natsproc.Start(t, "-c", path)

	user := func(name string, signer nkeys.KeyPair) nats.Option {
		key, err := nkeys.CreateUser()
		require.NoError(t, err)
		u := jwt.NewUserClaims(public(key))
		u.Name, u.IssuerAccount = name, public(account)
		u.SetScoped(true)
		token, err := u.Encode(signer)
		require.NoError(t, err)
		seed, err := key.Seed()
		require.NoError(t, err)
		return nats.UserJWTAndSeed(token, string(seed))
	}
	as := func(name string, credentials nats.Option) *testCluster {
		c := newCluster(t, server.URL())
		c.transport = natstransport.New(server.URL(), natstransport.ConnectOptions(credentials))
		return c
	}
	as("a", user("a", workers)).start("a")
	web := user("web", clients)
	got, err := fixture.NewAccountClient(as("web", web).dial("web")).Ref("alice").Add(t.Context(), 5)
	require.NoError(t, err)
	require.Equal(t, int64(5), got)

	denied := make(chan error, 10)
	nc, err := nats.Connect(server.URL(), web, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	r := &role{nc, denied}
	r.mayNot(t, []string{"sh.e2e.c.other.4000000000000001.any", "sh.e2e.m.all", "sh.e2e.r.c.web." + strings.Repeat("4", 16) + ".0.f"},
		[]string{"sh.e2e.r.c.other.>", "sh.e2e.c.>", "_INBOX.>"})
}
