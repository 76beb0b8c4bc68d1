package natsstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store"
)

// TestWindowIsAskedForRarely: messages that wait for each other for some seconds do not each ask
// for their stream.
func TestWindowIsAskedForRarely(t *testing.T) {
	server := natsproc.Start(t, "-js", "-sd", t.TempDir())
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), server.URL(), Config{Name: "bank"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	asked := func() uint64 {
		info, err := js.AccountInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.API.Total
	}
	before, begin := asked(), time.Now()
	const n = 500
	for i := range n {
		if err := s.Publish(t.Context(), store.Message{Subject: fmt.Sprint("s.", i), ID: fmt.Sprint(i), First: time.Now().Add(-10 * time.Second)}); err != nil {
			t.Fatal(err)
		}
	}
	most := 3 + 2*uint64(time.Since(begin)/knownFor)
	if got := asked() - before; got > most {
		t.Errorf("%d messages made %d questions, want at most %d", n, got, most)
	}
}

func TestPlainAck(t *testing.T) {
	for data, want := range map[string]uint64{
		`{"stream":"S_1","seq":12}`:                                      12,
		`{"stream":"S_1","seq":1882572361564160,"domain":"hub"}`:         1882572361564160,
		`{"stream":"S_1","seq":18446744073709551615}`:                    18446744073709551615,
		`{"stream":"S_1","seq":18446744073709551616}`:                    0,
		`{"stream":"S_1","seq":0}`:                                       0,
		`{"stream":"S_1","seq":}`:                                        0,
		`{"stream":"S_1","seq":12`:                                       0,
		`{"stream":"S_1"`:                                                0,
		`{"stream":"S_12","seq":12}`:                                     0,
		`{"stream":"S","seq":12}`:                                        0,
		`{"error":{"code":400,"err_code":10071},"stream":"S_1","seq":0}`: 0,
		`{"type":"x","stream":"S_1","seq":12}`:                           0,
		``:                                                               0,
	} {
		if got, ok := plainAck([]byte(data), "S_1"); ok != (want != 0) || ok && got != want {
			t.Errorf("plainAck(%s) = %d, %v, want %d", data, got, ok, want)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a.b.c", false},
		{"a.b.c", "a.b", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "a.b.c", false},
		{"a.*.c", "a.b.c", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{">", "a", true},
		{"b.>", "a.b", false},
	} {
		if got := covers(c.pattern, c.subject); got != c.want {
			t.Errorf("%s covers %s: got %v, want %v", c.pattern, c.subject, got, c.want)
		}
	}
}
