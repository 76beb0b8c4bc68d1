package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/runtime/admin"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

type connection struct {
	url, creds, nkey, ca, cert, key string

	name    string // of the operator
	context string // of the nats command

	user, password, token string // of the context alone
	tlsFirst              bool
	folder                configFolder
}

const defaultURL = "nats://127.0.0.1:4222"

// defaultName is package admin's default operator name.
const defaultName = "shardctl"

func (c *connection) flags(f *flag.FlagSet, env func(string) string) {
	c.folder = configFolder{env}
	f.StringVar(&c.url, "nats", env("NATS_URL"), "`URLs` of NATS servers, separated by commas (default the context's, and "+defaultURL+" without one)")
	f.StringVar(&c.context, "context", env("NATS_CONTEXT"), "`name` of a context of the nats command, for flags that are not given (default the selected one, without -nats)")
	f.StringVar(&c.name, "name", env("SHARD_OPERATOR"), "`name` of the operator, as the NATS user's permissions have it (default "+defaultName+")")
	f.StringVar(&c.creds, "creds", "", "NATS credentials `file`")
	f.StringVar(&c.nkey, "nkey", "", "`file` with the seed of an NKey user")
	f.StringVar(&c.ca, "ca", "", "`file` of the authority that signed the servers' certificates")
	f.StringVar(&c.cert, "cert", "", "`file` of the client certificate; needs -key")
	f.StringVar(&c.key, "key", "", "`file` of the private key of -cert")
}

// complete fills missing flags from a context of the nats command, and checks that flags fit
// together.
func (c *connection) complete() error {
	switch {
	case (c.cert == "") != (c.key == ""):
		return errors.New("-cert and -key: give both of them")
	case c.creds != "" && c.nkey != "":
		return errors.New("-creds and -nkey: give one of them")
	}
	if c.context == "" && c.url == "" {
		c.context = c.folder.selected()
	}
	if c.context != "" {
		from, err := c.folder.read(c.context)
		if err != nil {
			return err
		}
		c.follow(from)
	}
	c.url = cmp.Or(c.url, defaultURL)
	return checkOptional("operator", c.name)
}

// follow fills missing flags from a context. Credentials in a flag replace all of the context's.
func (c *connection) follow(from natsContext) {
	c.url, c.ca, c.tlsFirst = cmp.Or(c.url, from.URL), cmp.Or(c.ca, from.CA), from.TLSFirst
	if c.cert == "" {
		c.cert, c.key = from.Cert, from.Key
	}
	if c.creds == "" && c.nkey == "" {
		c.creds, c.nkey, c.user, c.password, c.token = from.Creds, from.NKey, from.User, from.Password, from.Token
	}
}

func (c *connection) options() []nats.Option {
	o := []nats.Option{nats.Name("shardctl")}
	if c.creds != "" {
		o = append(o, nats.UserCredentials(c.creds))
	}
	if c.nkey != "" {
		o = append(o, nkeyFile(c.nkey))
	}
	if c.user != "" {
		o = append(o, nats.UserInfo(c.user, c.password))
	}
	if c.token != "" {
		o = append(o, nats.Token(c.token))
	}
	if c.ca != "" {
		o = append(o, nats.RootCAs(c.ca))
	}
	if c.cert != "" {
		o = append(o, nats.ClientCert(c.cert, c.key))
	}
	if c.tlsFirst {
		o = append(o, nats.TLSHandshakeFirst())
	}
	return o
}

func (c *connection) dial(ctx context.Context, cluster string) (*admin.Client, error) {
	return admin.Dial(ctx, admin.Options{
		Cluster: cluster, Name: c.name, Transport: natstransport.New(c.url, natstransport.ConnectOptions(c.options()...)),
	})
}

func nkeyFile(path string) nats.Option {
	return func(o *nats.Options) error {
		sign, err := nats.NkeyOptionFromSeed(path)
		if err != nil {
			return err
		}
		return sign(o)
	}
}

// A natsContext is what shardctl reads of a context of the nats command: nats/context/NAME.json in
// the user's configuration folder (NATS's ADR 21).
type natsContext struct {
	URL      string `json:"url"`
	Token    string `json:"token"`
	User     string `json:"user"`
	Password string `json:"password"`
	Creds    string `json:"creds"`
	NKey     string `json:"nkey"`
	Cert     string `json:"cert"`
	Key      string `json:"key"`
	CA       string `json:"ca"`
	TLSFirst bool   `json:"tls_first"`
	NSC      string `json:"nsc"`
	JWT      string `json:"user_jwt"`
}

type configFolder struct{ env func(string) string }

func (f configFolder) path(elements ...string) string {
	base := f.env("XDG_CONFIG_HOME")
	if base == "" {
		base = filepath.Join(f.env("HOME"), ".config")
	}
	return filepath.Join(append([]string{base, "nats"}, elements...)...)
}

// selected returns the context chosen by "nats context select", or "".
func (f configFolder) selected() string {
	name, err := os.ReadFile(f.path("context.txt"))
	if err != nil {
		return "" // most users have selected no context
	}
	return strings.TrimSpace(string(name))
}

func (f configFolder) read(name string) (c natsContext, err error) {
	if name != filepath.Base(name) {
		return c, fmt.Errorf("context %q: want the name of a context (nats context ls)", name)
	}
	path := f.path("context", name+".json")
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("context %q: there is no file %s (nats context ls)", name, path)
	}
	if err != nil {
		return c, fmt.Errorf("context %q: %w", name, err)
	}
	if err := json.Unmarshal(content, &c); err != nil {
		return c, fmt.Errorf("context %q: %s: %w", name, path, err)
	}
	if c.NSC != "" || c.JWT != "" {
		return c, fmt.Errorf("context %q: shardctl reads neither nsc nor user_jwt of a context (give -creds)", name)
	}
	for _, file := range []*string{&c.Creds, &c.NKey, &c.Cert, &c.Key, &c.CA} {
		*file = f.expand(*file)
	}
	return c, nil
}

// expand replaces variables and a leading ~.
func (f configFolder) expand(file string) string {
	if rest, home := strings.CutPrefix(file, "~/"); home {
		file = filepath.Join(f.env("HOME"), rest)
	}
	return os.Expand(file, f.env)
}

// jetStreamTimeout bounds each answer of JetStream.
const jetStreamTimeout = 3 * time.Second

// A jetStream sends requests about JetStream with only the operator's rights.
type jetStream struct {
	conn *nats.Conn
	// ctx ends when the server refuses a subject, because no answer follows a refusal.
	ctx context.Context
}

// dialJetStream connects to NATS. Answers arrive in an inbox that the operator may subscribe to.
func dialJetStream(ctx context.Context, c *connection) (*jetStream, error) {
	ctx, refuse := context.WithCancelCause(ctx)
	denied := func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			refuse(err)
		}
	}
	opts := append(c.options(), nats.NoReconnect(), nats.ErrorHandler(denied))
	if c.name != "" {
		opts = append(opts, nats.CustomInboxPrefix("_INBOX."+c.name))
	}
	conn, err := nats.Connect(c.url, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.url, err)
	}
	return &jetStream{conn, ctx}, nil
}

type jetStreamError struct {
	Code        int    `json:"code"`
	Description string `json:"description"`
}

func (e *jetStreamError) Error() string {
	return fmt.Sprintf("JetStream answers: %s (%d)", e.Description, e.Code)
}

// errNoJetStream means that no server answers on JetStream's API.
var errNoJetStream = errors.New("JetStream is off at the servers")

func (j *jetStream) ask(verb string, request, answer any) error {
	ctx, cancel := context.WithTimeoutCause(j.ctx, jetStreamTimeout, fmt.Errorf("no answer within %v", jetStreamTimeout))
	defer cancel()
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := j.conn.RequestWithContext(ctx, "$JS.API."+verb, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return errNoJetStream
	case err != nil:
		return fmt.Errorf("$JS.API.%s: %w", verb, cmp.Or(context.Cause(ctx), err))
	}
	var refused struct{ Error *jetStreamError }
	if err := json.Unmarshal(m.Data, &refused); err != nil {
		return fmt.Errorf("$JS.API.%s: %w", verb, err)
	}
	if refused.Error != nil {
		return refused.Error
	}
	return json.Unmarshal(m.Data, answer)
}

func (j *jetStream) account() (a jetstream.AccountInfo, err error) {
	return a, j.ask("INFO", nil, &a)
}

// A streamList is a page of JetStream's list of streams. In a cluster of servers it also names the
// streams for which no server answers.
type streamList struct {
	Total   int                     `json:"total"`
	Streams []*jetstream.StreamInfo `json:"streams"`
	Missing []string                `json:"missing"`
	Offline map[string]string       `json:"offline"` // why, by stream
}

func (j *jetStream) streams(subjects string) (all streamList, err error) {
	request := struct {
		Offset  int    `json:"offset"`
		Subject string `json:"subject"`
	}{Subject: subjects}
	for {
		var page streamList
		if err := j.ask("STREAM.LIST", request, &page); err != nil {
			return all, err
		}
		all.Streams = append(all.Streams, page.Streams...)
		if request.Offset == 0 {
			all.Missing, all.Offline = page.Missing, page.Offline
		}
		if request.Offset += len(page.Streams); len(page.Streams) == 0 || request.Offset >= page.Total {
			return all, nil
		}
	}
}
