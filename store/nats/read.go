package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/store"
)

// getRequest requests a direct get or, with fewer fields, a message get.
type getRequest struct {
	Seq       uint64     `json:"seq,omitempty"`
	LastFor   string     `json:"last_by_subj,omitempty"`
	NextFor   string     `json:"next_by_subj,omitempty"`
	Batch     int        `json:"batch,omitempty"`
	MaxBytes  int        `json:"max_bytes,omitempty"`
	MultiLast []string   `json:"multi_last,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
}

const (
	pageBytes    = 4 << 20
	pageMessages = 1000
)

type stored struct {
	subject string
	seq     uint64
	header  nats.Header
	data    []byte
}

func (m *stored) head() store.Head {
	since, _ := strconv.ParseUint(m.header.Get(headerSince), 10, 64)
	return store.Head{Revision: store.Revision(m.seq), Since: store.Position(since), Value: m.data}
}

func (m *stored) deleted() bool { return m.header.Get(headerDeleted) != "" }

// A page is one replica's answer to a direct get.
type page struct {
	messages []stored
	more     bool   // there are further messages
	upTo     uint64 // the replica's last sequence; 0 means not known
}

type reader struct{ *api }

// errTooMany means that the subjects have more messages than fit into one answer.
var errTooMany = errors.New("more results than fit into one answer")

// page reads from one replica: the messages are its state at one moment.
func (c *reader) page(ctx context.Context, stream string, r getRequest) (page, error) {
	data, _ := json.Marshal(r) // a plain struct
	got, err := c.ask(ctx, &nats.Msg{Subject: c.js + "DIRECT.GET." + stream, Data: data}, true, store.ErrUnavailable)
	if errors.Is(err, errNobody) {
		return page{}, c.why(ctx, stream)
	}
	if err != nil {
		return page{}, err
	}
	return readPage(stream, got)
}

// readPage reads an answer. The answer's last message has the status.
func readPage(stream string, got []*nats.Msg) (page, error) {
	end := got[len(got)-1]
	switch status := end.Header.Get("Status"); status {
	case "204", "404":
	case "413":
		return page{}, finalError{errTooMany}
	default:
		return page{}, fmt.Errorf("%w: stream %s: JetStream's direct get: %s %s", store.ErrUnavailable, stream, status, end.Header.Get("Description"))
	}
	p := page{more: end.Header.Get("Nats-Num-Pending") != "0" && end.Header.Get("Status") == "204"}
	p.upTo, _ = strconv.ParseUint(end.Header.Get("Nats-UpTo-Sequence"), 10, 64)
	for _, m := range got[:len(got)-1] {
		seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
		if err != nil {
			return page{}, fmt.Errorf("%w: stream %s: JetStream's direct get returned a message without its sequence", store.ErrUnavailable, stream)
		}
		p.messages = append(p.messages, stored{m.Header.Get("Nats-Subject"), seq, m.Header, m.Data})
	}
	return p, nil
}

// leaderHas returns a message from the stream's leader, or nil if there is no such message.
func (c *reader) leaderHas(ctx context.Context, stream string, r getRequest) (*stored, error) {
	var answer struct {
		Message struct {
			Subject string `json:"subject"`
			Seq     uint64 `json:"seq"`
			Header  []byte `json:"hdrs"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	err := c.inquire(ctx, "STREAM.MSG.GET."+stream, r, &answer)
	var refused *apiError
	switch {
	case errors.As(err, &refused) && refused.ErrCode == codeNoMessage:
		return nil, nil
	case refused != nil && refused.Code == 503 && refused.ErrCode == codeNotEnabled:
		return nil, c.why(ctx, stream)
	case err != nil:
		return nil, repeatableError(err, stream)
	}
	m := &stored{subject: answer.Message.Subject, seq: answer.Message.Seq, data: answer.Message.Data}
	if len(answer.Message.Header) > 0 {
		if m.header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return nil, fmt.Errorf("%w: stream %s: headers of message %d: %w", store.ErrUnavailable, stream, m.seq, err)
		}
	}
	return m, nil
}

type streamInfo struct {
	Config jetstream.StreamConfig `json:"config"`
	State  struct {
		Messages uint64 `json:"messages"`
		LastSeq  uint64 `json:"last_seq"`
		Bytes    uint64 `json:"bytes"`
	} `json:"state"`
}

// info returns a stream's state; found is false if there is none. It waits during an election of
// JetStream's leader.
func (c *reader) info(ctx context.Context, stream string) (info streamInfo, found bool, err error) {
	err = c.inquire(ctx, "STREAM.INFO."+stream, nil, &info)
	var refused *apiError
	if errors.As(err, &refused) && refused.ErrCode == codeNoStream {
		return info, false, nil
	}
	if err != nil {
		return info, false, repeatableError(err, stream)
	}
	return info, true, checkStream(info.Config)
}

type logReader struct {
	*reader
	place    place
	from, to store.Position
	found    []store.Append
	missed   int // how often the leader did not know the last position
}

// read reads the range in pages, each from one replica. A page begins with the last append of the
// page before, which proves that nothing in between was trimmed.
func (r *logReader) read(ctx context.Context) error {
	if r.to == store.Start || r.to == store.Any || r.from > r.to {
		return r.gone()
	}
	return r.again(ctx, r.next)
}

func (r *logReader) next(ctx context.Context) (done bool, err error) {
	for {
		begin := r.from
		if len(r.found) > 0 {
			begin = r.found[len(r.found)-1].Position
		}
		p, err := r.page(ctx, r.place.logs, getRequest{Seq: uint64(begin), NextFor: r.place.log, Batch: pageMessages, MaxBytes: pageBytes})
		if err != nil {
			return false, err
		}
		if begin != store.Start && (len(p.messages) == 0 || p.messages[0].seq != uint64(begin)) {
			return r.absent(ctx, begin)
		}
		before := len(r.found)
		for _, m := range p.messages {
			position := store.Position(m.seq)
			if len(r.found) > 0 && position == begin {
				continue
			}
			if position > r.to {
				return r.absent(ctx, r.to)
			}
			r.found = append(r.found, store.Append{Position: position, Data: m.data})
			if position == r.to {
				return true, nil
			}
		}
		if !p.more || len(r.found) == before {
			return r.absent(ctx, r.to)
		}
	}
}

// absent handles an append that a replica lacks. If done is true, no replica has the append;
// otherwise the replica lags. A new leader may also lack the append briefly.
func (r *logReader) absent(ctx context.Context, position store.Position) (done bool, err error) {
	m, err := r.leaderHas(ctx, r.place.logs, getRequest{Seq: uint64(position)})
	if err != nil {
		return false, err
	}
	if m != nil && m.subject != r.place.log {
		return true, r.gone()
	}
	if m == nil {
		if r.missed++; r.missed == 3 {
			return true, r.gone()
		}
		pause(ctx, 10*time.Millisecond)
	}
	return false, fmt.Errorf("%w: all replicas that answer lag (try again)", store.ErrUnavailable)
}

func (r *logReader) gone() error {
	return fmt.Errorf("%w: stream %s lacks appends between %d and %d", store.ErrGone, r.place.logs, r.from, r.to)
}
