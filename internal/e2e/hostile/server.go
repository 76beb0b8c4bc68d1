package hostile

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/natsproc"
	"github.com/shardgen/shardgen/internal/rights"
)

// Password is that of each user of a server of Guard.
const Password = "secret"

// Guard starts a NATS server with JetStream on which each user has the given rights and no
// others. It keeps its files in dir.
func Guard(dir string, users map[string]rights.Rights) (*natsproc.Server, error) {
	if err := Configure(dir, users); err != nil {
		return nil, err
	}
	return natsproc.Run("-c", configIn(dir))
}

// Configure writes the configuration of a server of Guard, which reads it when it starts and by
// [natsproc.Server.Reload].
func Configure(dir string, users map[string]rights.Rights) error {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q }\nauthorization { users: [\n", filepath.Join(dir, "jetstream"))
	for _, user := range slices.Sorted(maps.Keys(users)) {
		fmt.Fprintf(&b, "{ user: %s, password: %s, %s }\n", user, Password, users[user].Server())
	}
	b.WriteString("] }\n")
	return os.WriteFile(configIn(dir), []byte(b.String()), 0o600)
}

func configIn(dir string) string { return filepath.Join(dir, "nats.conf") }

// URL is the URL of a user of the server.
func URL(s *natsproc.Server, user string) string {
	return "nats://" + user + ":" + Password + "@" + strings.TrimPrefix(s.URL(), "nats://")
}
