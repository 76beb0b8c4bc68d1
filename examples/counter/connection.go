package main

import (
	"flag"

	"github.com/nats-io/nats.go"
)

type connection struct{ url, nkey, creds, ca, cert, key string }

func (c *connection) flags(f *flag.FlagSet) {
	f.StringVar(&c.url, "nats", defaultURL, "`URL` of the NATS server")
	f.StringVar(&c.nkey, "nkey", "", "`file` with the seed of an NKey user")
	f.StringVar(&c.creds, "creds", "", "`file` with the credentials of a JWT user")
	f.StringVar(&c.ca, "ca", "", "`file` of the authority that signed the server's certificate")
	f.StringVar(&c.cert, "cert", "", "`file` of the client certificate; needs -key")
	f.StringVar(&c.key, "key", "", "`file` of the private key of -cert")
}

func (c *connection) options() (o []nats.Option, err error) {
	if c.nkey != "" {
		sign, err := nats.NkeyOptionFromSeed(c.nkey)
		if err != nil {
			return nil, err
		}
		o = append(o, sign)
	}
	if c.creds != "" {
		o = append(o, nats.UserCredentials(c.creds))
	}
	if c.ca != "" {
		o = append(o, nats.RootCAs(c.ca))
	}
	if c.cert != "" || c.key != "" {
		o = append(o, nats.ClientCert(c.cert, c.key))
	}
	return o, nil
}
