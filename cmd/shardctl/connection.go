package main

import (
	"errors"
	"flag"

	"github.com/nats-io/nats.go"
)

// A connection is where the NATS servers are and how shardctl proves who it is.
type connection struct {
	url, creds, nkey, ca, cert, key string
	name                            string // of the operator
}

// flags defines the flags of a connection.
func (c *connection) flags(f *flag.FlagSet, env func(string) string) {
	f.StringVar(&c.url, "nats", or(env("NATS_URL"), "nats://127.0.0.1:4222"), "`URLs` of NATS servers, separated by commas")
	f.StringVar(&c.name, "name", env("SHARD_OPERATOR"), "`name` of the operator, as the NATS user's permissions have it (default shardctl-<pid>)")
	f.StringVar(&c.creds, "creds", "", "NATS credentials `file`")
	f.StringVar(&c.nkey, "nkey", "", "`file` with the seed of an NKey user")
	f.StringVar(&c.ca, "ca", "", "`file` of the authority that signed the servers' certificates")
	f.StringVar(&c.cert, "cert", "", "`file` of the client certificate; needs -key")
	f.StringVar(&c.key, "key", "", "`file` of the private key of -cert")
}

// validate returns the reason why the flags do not fit together.
func (c *connection) validate() error {
	switch {
	case (c.cert == "") != (c.key == ""):
		return errors.New("-cert and -key: give both of them")
	case c.creds != "" && c.nkey != "":
		return errors.New("-creds and -nkey: give one of them")
	}
	return checkOptional("operator", c.name)
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
	if c.ca != "" {
		o = append(o, nats.RootCAs(c.ca))
	}
	if c.cert != "" {
		o = append(o, nats.ClientCert(c.cert, c.key))
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
