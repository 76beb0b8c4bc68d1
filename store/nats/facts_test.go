package natsstore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/test/natsproc"
)

// These tests check the facts about nats-server that the package relies on, without using the
// package. If one fails with a new version of nats-server, reconsider the code that relies on the
// fact.

const (
	lastHeader    = "Nats-Expected-Last-Subject-Sequence"
	subjectHeader = "Nats-Expected-Last-Subject-Sequence-Subject"
)

// A jetStream is a connection to a server, and one stream "F" of "f.>".
type jetStream struct {
	t  *testing.T
	nc *nats.Conn
	js jetstream.JetStream
}

func factsOf(t *testing.T, url string, c jetstream.StreamConfig) *jetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c.Name, c.Subjects, c.AllowDirect = "F", []string{"f.>"}, true
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, err := js.CreateStream(t.Context(), c)
		if err == nil {
			return &jetStream{t, nc, js}
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

type answer struct {
	Seq   uint64
	Error struct {
		Code        int `json:"err_code"`
		Description string
	}
}

// send publishes without waiting. The returned function waits for the answer. headers are pairs of
// names and values.
func (j *jetStream) send(subject, data string, headers ...string) (wait func() answer) {
	j.t.Helper()
	inbox, err := j.nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		j.t.Fatal(err)
	}
	m := &nats.Msg{Subject: subject, Data: []byte(data), Header: nats.Header{}, Reply: inbox.Subject}
	for i := 0; i < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	if err := j.nc.PublishMsg(m); err != nil {
		j.t.Fatal(err)
	}
	return func() answer {
		j.t.Helper()
		var a answer
		m, err := inbox.NextMsg(10 * time.Second)
		if err == nil {
			err = json.Unmarshal(m.Data, &a)
		}
		if err != nil {
			j.t.Fatal(err)
		}
		return a
	}
}

func (j *jetStream) publish(subject, data string, headers ...string) answer {
	j.t.Helper()
	return j.send(subject, data, headers...)()
}

// last returns the last messages of subjects, as "subject=data …", and the replica's last sequence.
func (j *jetStream) last(subjects ...string) (found, status, upTo string) {
	j.t.Helper()
	inbox, err := j.nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		j.t.Fatal(err)
	}
	data, _ := json.Marshal(map[string]any{"multi_last": subjects})
	if err := j.nc.PublishRequest("$JS.API.DIRECT.GET.F", inbox.Subject, data); err != nil {
		j.t.Fatal(err)
	}
	for {
		m, err := inbox.NextMsg(10 * time.Second)
		if err != nil {
			j.t.Fatal(err)
		}
		if status := m.Header.Get("Status"); status != "" {
			return strings.TrimSpace(found), status, m.Header.Get("Nats-UpTo-Sequence")
		}
		found += m.Header.Get("Nats-Subject") + "=" + string(m.Data) + " "
	}
}

func wantCode(t *testing.T, what string, a answer, code int) {
	t.Helper()
	if a.Error.Code != code {
		t.Errorf("%s: got %d %q, want %d", what, a.Error.Code, a.Error.Description, code)
	}
}

const wrongLast, racing = 10071, 10164

func TestFactHeadOnAnotherSubject(t *testing.T) {
	j := factsOf(t, natsproc.Start(t, "-js", "-sd", t.TempDir()).URL(), jetstream.StreamConfig{MaxMsgsPerSubject: 1})
	head := fmt.Sprint(j.publish("f.head", "1").Seq)
	wantCode(t, "under the head", j.publish("f.of.x", "v", lastHeader, head, subjectHeader, "f.head"), 0)
	wantCode(t, "again, over itself", j.publish("f.of.x", "w", lastHeader, head, subjectHeader, "f.head"), 0)
	var waiting []func() answer
	for i := range 50 { // on one copy, any number may be under way
		waiting = append(waiting, j.send(fmt.Sprint("f.of.", i), "v", lastHeader, head, subjectHeader, "f.head"))
	}
	for _, wait := range waiting {
		wantCode(t, "many at once", wait(), 0)
	}
	j.publish("f.head", "2")
	wantCode(t, "under the old head", j.publish("f.of.x", "late", lastHeader, head, subjectHeader, "f.head"), wrongLast)
}

func TestFactReadsOfManySubjects(t *testing.T) {
	j := factsOf(t, natsproc.Start(t, "-js", "-sd", t.TempDir()).URL(), jetstream.StreamConfig{MaxMsgsPerSubject: 1})
	j.publish("f.head", "1")
	j.publish("f.of.x", "v")
	if found, status, upTo := j.last("f.of.never", "f.of.no"); found != "" || status != "404" || upTo != "" {
		t.Errorf("only an absent subject: %q %s up to %q, want nothing, 404 and no sequence", found, status, upTo)
	}
	if found, status, upTo := j.last("f.of.never", "f.head"); found != "f.head=1" || status != "204" || upTo != "2" {
		t.Errorf("an absent subject and the head: %q %s up to %q, want the head, 204 up to 2", found, status, upTo)
	}
}

func TestFactPositionInAnEmptyLog(t *testing.T) {
	j := factsOf(t, natsproc.Start(t, "-js", "-sd", t.TempDir()).URL(), jetstream.StreamConfig{})
	at := fmt.Sprint(j.publish("f.log", "1").Seq)
	s, err := j.js.Stream(t.Context(), "F")
	if err == nil {
		err = s.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "its true position", j.publish("f.log", "2", lastHeader, at), wrongLast)
	wantCode(t, "none", j.publish("f.log", "2", lastHeader, "0"), 0)
}

func TestFactPurgeLeavesItsSequence(t *testing.T) {
	j := factsOf(t, natsproc.Start(t, "-js", "-sd", t.TempDir()).URL(), jetstream.StreamConfig{FirstSeq: 1000})
	for i := range 4 {
		if a := j.publish("f.log", "x"); a.Seq != uint64(1000+i) {
			t.Fatalf("sequence %d, want %d: first_seq counts", a.Seq, 1000+i)
		}
	}
	s, err := j.js.Stream(t.Context(), "F")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second purge removes nothing
		if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(1002)); err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context())
		if err != nil || info.State.FirstSeq != 1002 || info.State.Msgs != 2 {
			t.Fatalf("after a purge to 1002: %+v %v", info.State, err)
		}
	}
}

// TestFactDeletedEnds: the mark of a deleted record expires by itself, and no older message
// reappears.
func TestFactDeletedEnds(t *testing.T) {
	j := factsOf(t, natsproc.Start(t, "-js", "-sd", t.TempDir()).URL(), jetstream.StreamConfig{MaxMsgsPerSubject: 1, AllowMsgTTL: true})
	head := fmt.Sprint(j.publish("f.head", "1").Seq)
	j.publish("f.of.x", "old")
	wantCode(t, "delete", j.publish("f.of.x", "", lastHeader, head, subjectHeader, "f.head", "Nats-TTL", "1s"), 0)
	for deadline := time.Now().Add(20 * time.Second); ; {
		found, _, _ := j.last("f.of.x", "f.head")
		if found == "f.head=1" {
			return
		}
		if found != "f.head=1 f.of.x=" || time.Now().After(deadline) {
			t.Fatalf("found %q, want the mark of the record, then nothing", found)
		}
	}
}

// TestFactHeadOnThreeCopies: of concurrent single writes that expect one head, three copies may
// refuse all but one. All writes of a batch are applied.
func TestFactHeadOnThreeCopies(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three servers")
	}
	j := factsOf(t, cluster(t)[0].URL(), jetstream.StreamConfig{Replicas: 3, MaxMsgsPerSubject: 1, AllowAtomicPublish: true, AllowMsgTTL: true})
	head := fmt.Sprint(j.publish("f.head", "1").Seq)
	var waiting []func() answer
	for i := range 50 {
		waiting = append(waiting, j.send(fmt.Sprint("f.of.", i), "v", lastHeader, head, subjectHeader, "f.head"))
	}
	refused := 0
	for _, wait := range waiting {
		if a := wait(); a.Error.Code == racing {
			refused++
		} else {
			wantCode(t, "one of many at once", a, 0)
		}
	}
	t.Logf("%d of 50 single writes under one head were refused", refused)
	batch := func(id, head string, count int) answer {
		for i := range count - 1 {
			headers := nats.Header{"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {fmt.Sprint(i + 1)}, lastHeader: {head}, subjectHeader: {"f.head"}}
			m := &nats.Msg{Subject: fmt.Sprint("f.of.", i), Data: []byte(id), Header: headers}
			if i%2 == 1 {
				m.Data = nil
				m.Header["Nats-TTL"] = []string{"600s"}
			}
			if err := j.nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		return j.publish("f.of.end", id, "Nats-Batch-Id", id, "Nats-Batch-Sequence", fmt.Sprint(count), "Nats-Batch-Commit", "1", lastHeader, head, subjectHeader, "f.head")
	}
	wantCode(t, "a batch", batch("a", head, 500), 0)
	again := batch("b", head, 500)
	for ; again.Error.Code == racing; again = batch("b", head, 500) { // not applied, because writes are under way
	}
	wantCode(t, "the next batch", again, 0)
	if found, _, _ := j.last("f.of.0", "f.of.1", "f.of.end", "f.head"); found != "f.head=1 f.of.0=b f.of.1= f.of.end=b" {
		t.Errorf("found %q, want all of the second batch", found)
	}
	second := j.publish("f.head", "2")
	wantCode(t, "head", second, 0)
	wantCode(t, "a batch under the old head", batch("c", head, 3), wrongLast)
	if found, _, _ := j.last("f.of.0", "f.of.1", "f.of.end"); strings.Contains(found, "=c") {
		t.Errorf("found %q, want nothing of the third batch", found)
	}
}

// TestFactLastSequenceOfTheStream: of writes that expect the same last sequence of the whole
// stream, one is applied, even if they are concurrent. Of a batch, all messages are applied or
// none. The membership table relies on this.
func TestFactLastSequenceOfTheStream(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint("R", replicas), func(t *testing.T) {
			var url string
			if replicas == 1 {
				url = natsproc.Start(t, "-js", "-sd", t.TempDir()).URL()
			} else if testing.Short() {
				t.Skip("three servers")
			} else {
				url = cluster(t)[0].URL()
			}
			const streamLast, first = "Nats-Expected-Last-Sequence", 1000
			j := factsOf(t, url, jetstream.StreamConfig{Replicas: replicas, FirstSeq: first, MaxMsgsPerSubject: 1, AllowAtomicPublish: true, AllowMsgTTL: true})
			s, err := j.js.Stream(t.Context(), "F")
			if err != nil {
				t.Fatal(err)
			}
			if got := s.CachedInfo().State.LastSeq; got != first-1 {
				t.Errorf("an empty stream has the last sequence %d, want %d", got, first-1)
			}
			wantCode(t, "none in an empty stream", j.publish("f.a", "0", streamLast, "0"), wrongLast)
			last := uint64(first - 1)
			for round := range 20 {
				var waiting []func() answer
				for i := range 10 {
					waiting = append(waiting, j.send(fmt.Sprint("f.", i), fmt.Sprint(round), streamLast, fmt.Sprint(last)))
				}
				written := 0
				for _, wait := range waiting {
					if a := wait(); a.Error.Code != 0 {
						wantCode(t, "one of ten", a, wrongLast)
					} else if written++; a.Seq != last+1 {
						t.Errorf("sequence %d after %d", a.Seq, last)
					}
				}
				if last++; written != 1 {
					t.Fatalf("%d of ten writes were written, want 1", written)
				}
			}
			batch := func(id string, expect uint64) answer {
				m := &nats.Msg{Subject: "f.0", Header: nats.Header{"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {"1"}, streamLast: {fmt.Sprint(expect)}, "Nats-TTL": {"600s"}}}
				if err := j.nc.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
				return j.publish("f.end", id, "Nats-Batch-Id", id, "Nats-Batch-Sequence", "2", "Nats-Batch-Commit", "1")
			}
			wantCode(t, "a batch at a former sequence", batch("a", last-1), wrongLast)
			if found, _, _ := j.last("f.end", "f.1"); strings.Contains(found, "f.end") {
				t.Errorf("found %q, want nothing of the batch", found)
			}
			a := batch("b", last)
			if wantCode(t, "a batch", a, 0); a.Seq != last+2 {
				t.Errorf("a batch of two ends at sequence %d after %d", a.Seq, last)
			}
			wantCode(t, "a write at its first sequence", j.publish("f.0", "late", streamLast, fmt.Sprint(last+1)), wrongLast)
			if found, status, upTo := j.last("f.>"); !strings.Contains(found, "f.end=b") || status != "204" || upTo != fmt.Sprint(last+2) {
				t.Errorf("found %q %s up to %s, want the batch, up to %d", found, status, upTo, last+2)
			}
		})
	}
}
