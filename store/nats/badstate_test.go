package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

var shard = store.Shard{Type: "Account", Number: 3}

// configured starts a server with a configuration file.
func configured(t *testing.T, text string) *natsproc.Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return natsproc.Start(t, "-c", path)
}

// wantWords checks an error's cause, and that it says what happened and what to do.
func wantWords(t *testing.T, what string, err, cause error, words ...string) {
	t.Helper()
	if !errors.Is(err, cause) {
		t.Errorf("%s: got %v, want %v", what, err, cause)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: got %q, want it to name %q", what, err, word)
		}
	}
}

func admin(t *testing.T, s *natsproc.Server, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(s.URL(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func change(t *testing.T, js jetstream.JetStream, stream string, f func(*jetstream.StreamConfig)) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	f(&c)
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func TestNobodyThere(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := natsstore.Open(ctx, "nats://127.0.0.1:1", natsstore.Config{})
	wantWords(t, "open", err, store.ErrUnavailable, "is a server running there")
	if _, err := natsstore.Open(t.Context(), "http://127.0.0.1:1", natsstore.Config{}); err == nil || !strings.Contains(err.Error(), "want for example nats://") {
		t.Errorf("open a page of the web: got %v", err)
	}
}

// TestOpenWhileTheServerRestarts: a program that starts while its server restarts waits for the
// server, and logs that once.
func TestOpenWhileTheServerRestarts(t *testing.T) {
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	for _, away := range []struct {
		name       string
		stop, back func() error
	}{{"killed", s.Kill, s.Start}, {"stopped", s.Pause, s.Resume}} {
		if err := away.stop(); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan string, 10)
		opened := make(chan error, 1)
		go func() {
			backend, err := natsstore.Open(t.Context(), s.URL(), natsstore.Config{Timeout: time.Second, Logger: slog.New(slog.NewTextHandler(lines(waiting), nil))})
			if err == nil {
				backend.Close()
			}
			opened <- err
		}()
		select {
		case line := <-waiting:
			if !strings.Contains(line, "waits for a NATS server") {
				t.Errorf("%s: logged %q", away.name, line)
			}
		case err := <-opened:
			t.Fatalf("%s: open without a server: %v", away.name, err)
		}
		if err := away.back(); err != nil {
			t.Fatal(err)
		}
		if err := <-opened; err != nil {
			t.Errorf("%s: %v", away.name, err)
		}
		if len(waiting) > 0 {
			t.Errorf("%s: logged again: %q", away.name, <-waiting)
		}
	}
}

// lines is a log writer that sends each line to the channel.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

func TestBadConfig(t *testing.T) {
	_, err := natsstore.Open(t.Context(), "nats://127.0.0.1:1", natsstore.Config{Name: "a.b", Replicas: 6, Partitions: -1, Timeout: 1})
	for _, word := range []string{"Name", "Replicas", "Partitions", "Timeout"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("got %v, want it to name %s", err, word)
		}
	}
	_, err = natsstore.Open(t.Context(), "nats://127.0.0.1:1", natsstore.Config{Name: "sh"})
	if err == nil || !strings.Contains(err.Error(), "subjects of clusters") {
		t.Errorf("Name sh: got %v, want it refused", err)
	}
}

func TestJetStreamDisabled(t *testing.T) {
	s := natsproc.Start(t)
	_, err := natsstore.Open(t.Context(), s.URL(), natsstore.Config{})
	wantWords(t, "open", err, store.ErrUnavailable, "not enabled", "-js")
}

func TestTooFewServers(t *testing.T) {
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	_, err := natsstore.Open(t.Context(), s.URL(), natsstore.Config{Replicas: 3})
	wantWords(t, "open", err, store.ErrUnavailable, "shardgen_keys", "Replicas")
}

func TestRightsMissing(t *testing.T) {
	s := configured(t, `jetstream {store_dir: "`+t.TempDir()+`"}
authorization { users: [
	{user: all, password: x}
	{user: writer, password: x, permissions: {publish: ["shardgen.>", "$JS.API.STREAM.INFO.>"], subscribe: "_INBOX.>"}}
	{user: reader, password: x, permissions: {publish: "$JS.API.>", subscribe: "_INBOX.>"}}
] }`)
	as := func(user string) natsstore.Config {
		return natsstore.Config{ConnectOptions: []nats.Option{nats.UserInfo(user, "x")}}
	}
	_, err := natsstore.Open(t.Context(), s.URL(), as("writer"))
	wantWords(t, "create streams", err, store.ErrUnavailable, "no right", "$JS.API.STREAM.CREATE.shardgen_keys")
	all := open(t, s.URL(), as("all")).Shards()
	head, err := all.SetHead(t.Context(), shard, store.Head{})
	if err != nil {
		t.Fatal(err)
	}
	reader := open(t, s.URL(), as("reader")).Shards()
	_, err = reader.Append(t.Context(), shard, store.Start, nil)
	wantWords(t, "append", err, store.ErrUnavailable, "no right", "shardgen.t.Account.log")
	wantWords(t, "append", err, fs.ErrPermission)
	_, err = reader.Put(t.Context(), shard, head, []store.Change{{ID: "a"}, {ID: "b"}})
	wantWords(t, "put", err, store.ErrUnavailable, "no right", "shardgen.t.Account.rec")
	writer := open(t, s.URL(), as("writer")).Shards()
	_, _, err = writer.Get(t.Context(), shard, []string{"a"}, head)
	wantWords(t, "get", err, store.ErrUnavailable, "no right", "$JS.API.DIRECT.GET")
	wantWords(t, "get", err, fs.ErrPermission)
	_, err = writer.Head(t.Context(), shard)
	wantWords(t, "head", err, store.ErrUnavailable, "no right", "$JS.API.STREAM.MSG.GET")
	if _, err := writer.Append(t.Context(), shard, store.Start, nil); err != nil {
		t.Errorf("append with the right to: %v", err)
	}
}

func TestStreamDeleted(t *testing.T) {
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	running := open(t, s.URL(), natsstore.Config{}).Shards()
	head, err := running.SetHead(t.Context(), shard, store.Head{})
	if err != nil {
		t.Fatal(err)
	}
	last, err := running.Append(t.Context(), shard, store.Start, []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	js := admin(t, s)
	for _, stream := range []string{"shardgen_Account_log_3", "shardgen_Account_rec_3"} {
		if err := js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	log, rec := "shardgen_Account_log_3 is not there", "shardgen_Account_rec_3 is not there"
	_, err = running.Append(t.Context(), shard, last, nil)
	wantWords(t, "append", err, store.ErrUnavailable, log, "restore it")
	_, err = running.Read(t.Context(), shard, last, last)
	wantWords(t, "read", err, store.ErrUnavailable, log)
	wantWords(t, "trim", running.Trim(t.Context(), shard, store.Head{Revision: head, Since: last}), store.ErrUnavailable, rec)
	_, err = running.Head(t.Context(), shard)
	wantWords(t, "head", err, store.ErrUnavailable, rec)
	_, err = running.SetHead(t.Context(), shard, store.Head{Revision: head})
	wantWords(t, "set head", err, store.ErrUnavailable, rec)
	_, err = running.Put(t.Context(), shard, head, []store.Change{{ID: "a"}, {ID: "b"}})
	wantWords(t, "put", err, store.ErrUnavailable, rec)
	_, _, err = running.Get(t.Context(), shard, nil, head)
	wantWords(t, "get", err, store.ErrUnavailable, rec)
	_, err = running.List(t.Context(), shard, store.None)
	wantWords(t, "list", err, store.ErrUnavailable, rec)

	started := open(t, s.URL(), natsstore.Config{}).Shards()
	_, err = started.Head(t.Context(), shard)
	wantWords(t, "a process that starts", err, store.ErrUnavailable, log)
	// The stream of the first log is deleted too, while other streams have data.
	if _, err := running.Append(t.Context(), store.Shard{Type: "Account", Number: 1}, store.Any, nil); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "shardgen_Account_log_0"); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, s.URL(), natsstore.Config{}).Shards().Head(t.Context(), shard)
	wantWords(t, "a process that starts", err, store.ErrUnavailable, "shardgen_Account_log_0 is not there", "shardgen_Account_log_1 has data")
}

func TestNoCreate(t *testing.T) {
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	_, err := natsstore.Open(t.Context(), s.URL(), natsstore.Config{NoCreate: true})
	wantWords(t, "open", err, store.ErrUnavailable, "shardgen_keys is not there")
	open(t, s.URL(), natsstore.Config{})
	_, err = open(t, s.URL(), natsstore.Config{NoCreate: true}).Shards().Head(t.Context(), shard)
	wantWords(t, "head", err, store.ErrUnavailable, "shardgen_Account_log_0 is not there")
}

func TestStreamChanged(t *testing.T) {
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	js := admin(t, s)
	for _, test := range []struct {
		name   string
		change func(*jetstream.StreamConfig)
		words  string
	}{
		{"forgets", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "unset max_age"},
		{"few", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 3 }, "all but 3 messages of a subject: restore max_msgs_per_subject"},
		{"one", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }, "all but 1 messages of a subject: restore max_msgs_per_subject"},
		{"drops", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, "set discard to new"},
		{"closed", func(c *jetstream.StreamConfig) { c.AllowDirect = false }, "set allow_direct"},
		{"newer", func(c *jetstream.StreamConfig) { c.Metadata["shardgen.format"] = "2" }, "a newer program has written it"},
		{"alien", func(c *jetstream.StreamConfig) { c.Metadata = nil }, "not of this store"},
	} {
		cfg := natsstore.Config{Name: test.name}
		if _, err := open(t, s.URL(), cfg).Shards().Head(t.Context(), shard); err != nil {
			t.Fatal(err)
		}
		stream := test.name + "_Account_log_3"
		change(t, js, stream, test.change)
		_, err := open(t, s.URL(), cfg).Shards().Head(t.Context(), shard)
		wantWords(t, test.name, err, store.ErrUnavailable, stream, test.words)
	}
}

// TestPartitionsStay: the number of a type's pairs of streams stays that of the type's first start.
func TestPartitionsStay(t *testing.T) {
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	for _, partitions := range []int{3, 5} {
		c := open(t, s.URL(), natsstore.Config{Partitions: partitions}).Shards()
		h, err := c.Head(t.Context(), shard)
		if err != nil || (h.Revision == store.None) != (partitions == 3) {
			t.Fatalf("with %d partitions: head %+v, %v", partitions, h, err)
		}
		if _, err := c.SetHead(t.Context(), shard, store.Head{Revision: h.Revision}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPayloadLimit(t *testing.T) {
	s := configured(t, `max_payload: 64KB, jetstream {store_dir: "`+t.TempDir()+`"}`)
	c := open(t, s.URL(), natsstore.Config{}).Shards()
	data := make([]byte, 100<<10)
	_, err := c.Append(t.Context(), shard, store.Start, data)
	wantWords(t, "append", err, store.ErrTooLarge, "102400", "raise it")
	var large *store.TooLargeError
	if !errors.As(err, &large) || large.Size != len(data) || large.Limit > 64<<10 || large.Limit < 48<<10 {
		t.Fatalf("got %v, want the sizes", err)
	}
	head, err := c.SetHead(t.Context(), shard, store.Head{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Put(t.Context(), shard, head, []store.Change{{ID: "small", Value: []byte("v")}, {ID: "large", Value: data}})
	wantWords(t, "put", err, store.ErrTooLarge, `record "large"`, "raise it")
	if _, err := c.Append(t.Context(), shard, store.Start, data[:large.Limit]); err != nil {
		t.Errorf("append that fits: %v", err)
	}
	if got, err := c.List(t.Context(), shard, store.None); err != nil || len(got) != 0 {
		t.Errorf("%d records (%v) of a refused put", len(got), err)
	}
}

// full appends until the store takes no more, and returns the positions of acknowledged appends.
func full(t *testing.T, c store.Shards, last store.Position) (acknowledged []store.Position, err error) {
	t.Helper()
	data := make([]byte, 256<<10)
	for range 100 {
		p, err := c.Append(t.Context(), shard, last, data)
		if err != nil {
			return acknowledged, err
		}
		acknowledged, last = append(acknowledged, p), p
	}
	t.Fatal("the store is never full")
	return nil, nil
}

// again trims the log, and checks that the store then takes appends again.
func again(t *testing.T, c store.Shards, acknowledged []store.Position) {
	t.Helper()
	got, err := c.Read(t.Context(), shard, acknowledged[0], acknowledged[len(acknowledged)-1])
	if err != nil || len(got) != len(acknowledged) {
		t.Fatalf("%d appends are there (%v), %d were acknowledged", len(got), err, len(acknowledged))
	}
	last := acknowledged[len(acknowledged)-1]
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, err := c.Append(t.Context(), shard, last, []byte("again"))
		if err == nil || errors.Is(err, store.ErrConflict) { // a refused append may be in the log all the same
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("append when there is room again: %v", err)
		}
	}
}

func TestStorageLimit(t *testing.T) {
	s := configured(t, `jetstream {store_dir: "`+t.TempDir()+`", max_file_store: 6MB}`)
	c := open(t, s.URL(), natsstore.Config{Partitions: 1}).Shards()
	head, err := c.SetHead(t.Context(), shard, store.Head{})
	if err != nil {
		t.Fatal(err)
	}
	acknowledged, err := full(t, c, store.Start)
	wantWords(t, "append", err, store.ErrUnavailable, "max_file_store", "full")
	_, err = c.SetHead(t.Context(), shard, store.Head{Revision: head})
	wantWords(t, "set head", err, store.ErrUnavailable, "max_file_store")
	last := acknowledged[len(acknowledged)-1]
	js := admin(t, s)
	if got, err := c.Read(t.Context(), shard, acknowledged[0], last); err != nil || len(got) != len(acknowledged) {
		t.Fatalf("%d appends are there (%v), %d were acknowledged", len(got), err, len(acknowledged))
	}
	stream, err := js.Stream(t.Context(), "shardgen_Account_log_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(uint64(last))); err != nil {
		t.Fatal(err)
	}
	again(t, c, acknowledged[len(acknowledged)-1:])
}

func TestStreamLimit(t *testing.T) {
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	c := open(t, s.URL(), natsstore.Config{Partitions: 1}).Shards()
	first, err := c.Append(t.Context(), shard, store.Start, nil)
	if err != nil {
		t.Fatal(err)
	}
	js := admin(t, s)
	change(t, js, "shardgen_Account_log_0", func(c *jetstream.StreamConfig) { c.MaxBytes = 2 << 20 })
	acknowledged, err := full(t, c, first)
	wantWords(t, "append", err, store.ErrUnavailable, "shardgen_Account_log_0", "max_bytes")
	change(t, js, "shardgen_Account_log_0", func(c *jetstream.StreamConfig) { c.MaxBytes = -1 })
	again(t, c, append([]store.Position{first}, acknowledged...))
}

// TestSlowerThanTheDeadline: if the server does not answer, a write's outcome is uncertain; the
// same write again settles it.
func TestSlowerThanTheDeadline(t *testing.T) {
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	c := open(t, s.URL(), natsstore.Config{}).Shards()
	last, err := c.Append(t.Context(), shard, store.Start, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	for err == nil { // the server stops a moment after the signal
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		var p store.Position
		if p, err = c.Append(ctx, shard, last, []byte("in doubt")); err == nil {
			last = p
		}
		cancel()
	}
	wantWords(t, "append", err, store.ErrUncertain, "Account/3", context.DeadlineExceeded.Error())
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	for {
		_, err = c.Append(t.Context(), shard, last, []byte("in doubt"))
		if !errors.Is(err, store.ErrUncertain) && !errors.Is(err, store.ErrUnavailable) {
			break
		}
	}
	if err != nil && !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
	end, err := c.Append(t.Context(), shard, store.Any, []byte("claim"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Read(t.Context(), shard, last, end)
	if err != nil || len(got) != 3 || string(got[1].Data) != "in doubt" {
		t.Errorf("the log has %v (%v), want the uncertain append once", got, err)
	}
}

// TestConnectionLost: when the connection is lost, calls fail at once, before their timeout.
func TestConnectionLost(t *testing.T) {
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	c := open(t, s.URL(), natsstore.Config{Timeout: time.Hour}).Shards()
	last, err := c.Append(t.Context(), shard, store.Start, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error)
	go func() { // the test waits for it
		p, err := last, error(nil)
		for err == nil { // the server stops a moment after the signal
			p, err = c.Append(t.Context(), shard, p, nil)
		}
		answered <- err
	}()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; !errors.Is(err, store.ErrUncertain) && !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want %v or %v", err, store.ErrUncertain, store.ErrUnavailable)
	}
	_, err = c.Append(t.Context(), shard, last, nil)
	wantWords(t, "append without a server", err, store.ErrUnavailable, "not connected")
}

func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	backend, err := natsstore.Open(ctx, "nats://127.0.0.1:1", natsstore.Config{Name: "bank", Replicas: 3})
	if err != nil {
		fmt.Println(errors.Is(err, store.ErrUnavailable))
		return
	}
	defer backend.Close()
	// Output: true
}

// TestTrimOfAChangedStream: a trim fails, and says why, where the settings of the log or of the records
// were changed.
func TestTrimOfAChangedStream(t *testing.T) {
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	js := admin(t, s)
	for _, part := range []string{"log_3", "rec_3"} {
		c := open(t, s.URL(), natsstore.Config{Name: part}).Shards()
		p, err := c.Append(t.Context(), shard, store.Start, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		h := store.Head{Since: p}
		if h.Revision, err = c.SetHead(t.Context(), shard, h); err != nil {
			t.Fatal(err)
		}
		change(t, js, part+"_Account_"+part, func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld })
		wantWords(t, part, c.Trim(t.Context(), shard, h), store.ErrUnavailable, part, "set discard to new")
	}
}
