package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
)

// A Stream is a stream to which the store under test publishes, if it implements [store.Publisher].
type Stream struct {
	Subject string        // a subject of the stream, without wildcards
	Own     []string      // subjects on which the store must not publish, because it uses them
	Window  time.Duration // the duplicate window
	// Data returns the data of the messages on a subject, in order.
	Data func(t *testing.T, subject string) []string
	// Subscribe subscribes to a subject. The returned function waits for the next message, at most
	// a moment, and returns its data.
	Subscribe func(t *testing.T, subject string) func() (data string, received bool)
}

func (h Harness) publisher(t *testing.T) (Stream, [2]store.Publisher) {
	t.Helper()
	if h.Stream == nil {
		t.Skip("the store does not publish")
	}
	s := h.Stream(t)
	var all [2]store.Publisher
	for i := range all {
		all[i] = h.Client(t).(store.Publisher)
	}
	return s, all
}

func (s Stream) want(t *testing.T, subject string, want ...string) {
	t.Helper()
	if got := s.Data(t, subject); !slices.Equal(got, want) {
		t.Errorf("subject %s has %q, want %q", subject, got, want)
	}
}

// testPublish checks that a message that is published again within the duplicate window is stored
// once, whichever client publishes it.
func testPublish(t *testing.T, h Harness) {
	s, p := h.publisher(t)
	first := time.Now().Add(-time.Hour)
	for i, m := range []store.Message{
		{Subject: s.Subject, ID: "T/1/1", Data: []byte("a")},
		{Subject: s.Subject, ID: "T/1/1", Data: []byte("a")},
		{Subject: s.Subject, ID: "T/1/2", Data: []byte{}},
		{Subject: s.Subject, ID: "T/1/3", Data: []byte("b"), First: first}, // looked for, and not found
		{Subject: s.Subject, ID: "T/1/3", Data: []byte("b"), First: first},
	} {
		if err := p[i%2].Publish(t.Context(), m); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	s.want(t, s.Subject, "a", "", "b")
}

// testPublishAfterWindow checks that a message is stored once even if it is published again after
// the duplicate window has forgotten it. Other messages are published at the same time, so the
// store looks for several messages at once.
func testPublishAfterWindow(t *testing.T, h Harness) {
	s, p := h.publisher(t)
	first := time.Now()
	const stored, all = 3, 6
	message := func(i int) store.Message {
		return store.Message{Subject: s.Subject, ID: fmt.Sprint("T/1/", i), Data: fmt.Append(nil, i)}
	}
	for i := range stored {
		if err := p[0].Publish(t.Context(), message(i)); err != nil {
			t.Fatal(err)
		}
	}
	h.Wait(2 * s.Window)
	errs := make(chan error)
	for i := range all {
		go func() {
			m := message(i)
			m.First = first
			errs <- p[1].Publish(t.Context(), m)
		}()
	}
	for range all {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	got := s.Data(t, s.Subject)
	slices.Sort(got)
	if want := []string{"0", "1", "2", "3", "4", "5"}; !slices.Equal(got, want) {
		t.Errorf("the stream has %q, want %q", got, want)
	}
}

func testPublishErrors(t *testing.T, h Harness) {
	s, p := h.publisher(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		m    store.Message
		want error
	}{
		"no stream":           {t.Context(), store.Message{Subject: "nobody.has.it", ID: "1"}, store.ErrNoStream},
		"no stream any more":  {t.Context(), store.Message{Subject: "nobody.has.it", ID: "1", First: time.Now()}, store.ErrNoStream},
		"context ended":       {ended, store.Message{Subject: s.Subject, ID: "1"}, store.ErrUnavailable},
		"no id":               {t.Context(), store.Message{Subject: s.Subject}, store.ErrBadKey},
		"id with a line":      {t.Context(), store.Message{Subject: s.Subject, ID: "1\r\n2"}, store.ErrBadKey},
		"wildcard":            {t.Context(), store.Message{Subject: "a.*", ID: "1"}, store.ErrBadKey},
		"subject of a server": {t.Context(), store.Message{Subject: "$JS.API.INFO", ID: "1"}, store.ErrBadKey},
	} {
		wantError(t, "publish, "+name, p[0].Publish(c.ctx, c.m), c.want)
	}
	for _, own := range s.Own {
		if err := p[0].CheckSubject(own); !errors.Is(err, store.ErrBadKey) {
			t.Errorf("CheckSubject(%q) = %v, want ErrBadKey", own, err)
		}
		wantError(t, "publish", p[0].Publish(t.Context(), store.Message{Subject: own, ID: "1"}), store.ErrBadKey)
		wantError(t, "send", p[0].Send(t.Context(), own, nil), store.ErrBadKey)
	}
	if err := p[0].CheckSubject(s.Subject); err != nil {
		t.Errorf("CheckSubject(%q) = %v, want nil", s.Subject, err)
	}
	wantError(t, "send", p[0].Send(t.Context(), "a b", nil), store.ErrBadKey)
	wantError(t, "send", p[0].Send(ended, s.Subject, nil), store.ErrUnavailable)
	s.want(t, s.Subject)
}

// testPublishUncertain checks that a message whose acknowledgement was lost is stored once when it
// is published again.
func testPublishUncertain(t *testing.T, h Harness) {
	if h.Held == nil {
		t.Skip("requests cannot be held up")
	}
	s, _ := h.publisher(t)
	c, hold, release := h.Held(t)
	p := c.(store.Publisher)
	m := store.Message{Subject: s.Subject, ID: "T/1/1", Data: []byte("a")}
	first := time.Now()
	held(t, hold, "publish", func(ctx context.Context) error { return p.Publish(ctx, m) })
	release()
	m.First = first
	if err := p.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.want(t, s.Subject, "a")
}

func testSend(t *testing.T, h Harness) {
	s, p := h.publisher(t)
	next := s.Subscribe(t, "live.x")
	// A server learns of subscriptions at other servers of its cluster only after a while. Messages
	// sent before that are lost.
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if err := p[0].Send(t.Context(), "live.x", []byte("now")); err != nil {
			t.Fatal(err)
		}
		if got, received := next(); received {
			if got != "now" {
				t.Errorf("received %q, want %q", got, "now")
			}
			return
		}
	}
	t.Error("nothing was received within a minute")
}
