package natsproc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Places says where the servers of a cluster run, one at each place.
type Places struct {
	At  []Place // nil is 127.0.0.1
	TLS *TLS    // between clients and servers and between servers; nil means none
	// Stores are the folders in which the servers keep their streams; nil means that they have no
	// JetStream.
	Stores []string
}

// RunCluster starts a cluster of n servers, and returns when each is connected to all others. A
// restarted server keeps its addresses for clients and for the other servers.
func RunCluster(n int) (servers []*Server, err error) {
	return RunClusterAt(Places{At: make([]Place, n)})
}

// RunStores does what [RunCluster] does, with JetStream: one server for each folder.
func RunStores(folders ...string) (servers []*Server, err error) {
	return RunClusterAt(Places{At: make([]Place, len(folders)), Stores: folders})
}

// RunClusterAt does what [RunCluster] does, with a server at each of the places. With TLS it writes
// the servers' configuration beside the certificate.
func RunClusterAt(places Places) (servers []*Server, err error) {
	n, tls := len(places.At), places.TLS
	defer func() {
		if err != nil {
			for _, s := range servers {
				err = errors.Join(err, s.Kill())
			}
		}
	}()
	addresses, err := routeAddresses(places.At)
	if err != nil {
		return nil, fmt.Errorf("start %d nats-servers: %w", n, err)
	}
	config, err := routeConfig(tls)
	if err != nil {
		return nil, fmt.Errorf("start %d nats-servers: %w", n, err)
	}
	for i, own := range addresses {
		args := []string{
			"-c", config, "-n", fmt.Sprint("s", i+1), "-cluster_name", "e2e",
			"-cluster", "nats://" + own, "-routes", "nats://" + strings.Join(addresses, ",nats://"),
		}
		if places.Stores != nil {
			args = append(args, "-js", "-sd", places.Stores[i])
		}
		s, err := runAt(places.At[i], tls, args...)
		if err != nil {
			return servers, err
		}
		servers = append(servers, s)
	}
	return servers, awaitMesh(servers)
}

// routes is the configuration recommended by docs/guide/deploying.md. By default servers give up
// silent routes after three pings, 30 s apart, and after a partition TCP may wait a minute.
const routes = "cluster {\n  ping_interval: 2s\n  ping_max: 2\n}\n"

// secure is routes with TLS, for clients too.
const secure = `tls {
  cert_file: %[1]q
  key_file: %[2]q
}
cluster {
  ping_interval: 2s
  ping_max: 2
  tls {
    cert_file: %[1]q
    key_file: %[2]q
    ca_file: %[3]q
  }
}
`

// routeConfig writes the configuration beside the certificate or, if tls is nil, beside the server's
// program.
func routeConfig(tls *TLS) (path string, err error) {
	if tls != nil {
		path = tls.Cert + ".conf"
		return path, os.WriteFile(path, fmt.Appendf(nil, secure, tls.Cert, tls.Key, tls.CA), 0o600)
	}
	bin, err := Build()
	if err != nil {
		return "", err
	}
	path = bin + ".routes.conf"
	if now, err := os.ReadFile(path); err == nil && string(now) == routes {
		return path, nil
	}
	tmp, err := os.CreateTemp(filepath.Dir(bin), "routes-")
	if err != nil {
		return "", err
	}
	_, err = tmp.WriteString(routes)
	if err := errors.Join(err, tmp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return path, os.Rename(tmp.Name(), path) // as in buildServer: the last file stays, and all are equal
}

// routePort is for servers at places. Each place runs one server, so the port is free.
const routePort = "6222"

func routeAddresses(places []Place) (addresses []string, err error) {
	for _, place := range places {
		address, err := addressIn(place, routePort)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// awaitMesh waits until messages from any server reach all: subscriptions take time to spread.
func awaitMesh(servers []*Server) error {
	heard := make(chan [2]string, 1024)
	var conns []*nats.Conn
	for _, s := range servers {
		nc, err := nats.Connect(s.URL(), s.dialed)
		if err != nil {
			return fmt.Errorf("start %d nats-servers: %s: %w\n%s", len(servers), s.addr, err, s.Output())
		}
		defer nc.Close()
		conns = append(conns, nc)
		if _, err := nc.Subscribe("natsproc.mesh", func(m *nats.Msg) { heard <- [2]string{string(m.Data), s.addr} }); err != nil {
			return err
		}
	}
	publish := time.NewTicker(20 * time.Millisecond)
	defer publish.Stop()
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	for ways := map[[2]string]bool{}; len(ways) < len(servers)*len(servers); {
		select {
		case way := <-heard:
			ways[way] = true
		case <-publish.C:
			for i, nc := range conns {
				if err := nc.Publish("natsproc.mesh", []byte(servers[i].addr)); err != nil {
					return err
				}
			}
		case <-timeout.C:
			return fmt.Errorf("start %d nats-servers: not connected to each other within %v\n%s", len(servers), readyTimeout, servers[0].Output())
		}
	}
	return nil
}

// dialed makes connections to the server start at the server's place, and trust its certificate.
func (s *Server) dialed(o *nats.Options) error {
	if s.tls != nil {
		if err := nats.RootCAs(s.tls.CA)(o); err != nil {
			return err
		}
	}
	if s.place != nil {
		return nats.SetCustomDialer(s.place)(o)
	}
	return nil
}
