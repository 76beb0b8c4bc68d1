package main

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/natsproc"
)

// A snapshot is a stream as JetStream hands it out, and takes it back.
type snapshot struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	chunks [][]byte
}

// ask sends a request to JetStream.
func ask(nc *nats.Conn, subject string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	m, err := nc.Request("$JS.API."+subject, body, 10*time.Second)
	if err != nil {
		return err
	}
	var refused struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := errors.Join(json.Unmarshal(m.Data, &refused), json.Unmarshal(m.Data, out)); err != nil {
		return err
	}
	if refused.Error != nil {
		return errors.New(subject + ": " + refused.Error.Description)
	}
	return nil
}

// snapshotOf takes a snapshot of a stream, as `nats stream backup` does.
func snapshotOf(nc *nats.Conn, stream string) (s snapshot, err error) {
	chunks, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return s, err
	}
	err = ask(nc, "STREAM.SNAPSHOT."+stream, map[string]any{"deliver_subject": chunks.Subject, "no_consumers": true}, &s)
	for err == nil {
		var m *nats.Msg
		if m, err = chunks.NextMsg(10 * time.Second); err != nil {
			break
		}
		if len(m.Data) == 0 {
			return s, errors.Join(chunks.Unsubscribe())
		}
		s.chunks = append(s.chunks, m.Data)
		if m.Reply != "" {
			err = m.Respond(nil)
		}
	}
	return s, err
}

// restore makes a stream of a snapshot, as `nats stream restore` does.
func (s snapshot) restore(nc *nats.Conn, stream string) error {
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	err := ask(nc, "STREAM.RESTORE."+stream, s, &to)
	for _, c := range append(s.chunks, nil) {
		if err == nil {
			_, err = nc.Request(to.Subject, c, 10*time.Second)
		}
	}
	return err
}

// TestStoreSnapshots: snapshots of all streams, taken while no node runs, are a backup of everything.
func TestStoreSnapshots(t *testing.T) {
	from, to := runJetStream(t, t.TempDir()), runJetStream(t, t.TempDir())
	client, stop := hostVaults(t, from.URL())
	fillVaults(t, client)
	stop()
	connect := func(s *natsproc.Server) *nats.Conn {
		nc, err := nats.Connect(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	source, target := connect(from), connect(to)
	var names struct {
		Streams []string `json:"streams"`
	}
	if err := ask(source, "STREAM.NAMES", struct{}{}, &names); err != nil || len(names.Streams) != 9 {
		t.Fatalf("streams %v, %v, want 9", names, err)
	}
	for _, stream := range names.Streams {
		s, err := snapshotOf(source, stream)
		if err == nil {
			err = s.restore(target, stream)
		}
		if err != nil {
			t.Fatalf("%s: %v", stream, err)
		}
	}
	args := "store verify -nats " + to.URL()
	shardctl(t, nil, args).check(t, args, exitOK, "40 entities can be read", "")
	client, stop = hostVaults(t, to.URL())
	defer stop()
	checkVaults(t, client)
	if got, err := client.Ref("vault-3").Add(t.Context(), 1); err != nil || got != 5 {
		t.Errorf("after the restore: %d, %v, want 5", got, err)
	}
}
