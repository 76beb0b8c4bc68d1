package main

import (
	"cmp"
	"errors"
	"flag"

	"github.com/nats-io/nats.go"
)

// A connection is where the NATS servers are and how shardctl proves who it is.
type connection struct {
	url, creds, nkey, ca, cert, key string

	name    string // of the operator
	context string // of the nats command

	user, password, token string // of the context alone
	tlsFirst              bool
	folder                configFolder
}

// defaultURL is that of a server on this machine.
const defaultURL = "nats://127.0.0.1:4222"

// defaultName is the operator's name without -name, as package admin has it.
const defaultName = "shardctl"

// flags defines the flags of a connection.
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

// complete takes from a context the values of flags that are not given, and returns the reason why
// the flags do not fit together.
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

// follow takes from a context the values of flags that are not given. Flags that identify the user
// replace all of the context's that do.
func (c *connection) follow(from natsContext) {
	c.url, c.ca, c.tlsFirst = cmp.Or(c.url, from.URL), cmp.Or(c.ca, from.CA), from.TLSFirst
	if c.cert == "" {
		c.cert, c.key = from.Cert, from.Key
	}
	if c.creds == "" && c.nkey == "" {
		c.creds, c.nkey, c.user, c.password, c.token = from.Creds, from.NKey, from.User, from.Password, from.Token
	}
}

// options are the options of the connection to NATS. Files are read when they are applied.
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

// nkeyFile signs the server's nonce with the seed in a file.
func nkeyFile(path string) nats.Option {
	return func(o *nats.Options) error {
		sign, err := nats.NkeyOptionFromSeed(path)
		if err != nil {
			return err
		}
		return sign(o)
	}
}
