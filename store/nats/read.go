package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/store"
)

// getRequest is the request of JetStream's direct get, and in part of its message get.
type getRequest struct {
	Seq       uint64   `json:"seq,omitempty"`
	LastFor   string   `json:"last_by_subj,omitempty"`
	NextFor   string   `json:"next_by_subj,omitempty"`
	Batch     int      `json:"batch,omitempty"`
	MaxBytes  int      `json:"max_bytes,omitempty"`
	MultiLast []string `json:"multi_last,omitempty"`
}

const (
	pageBytes    = 4 << 20
	pageMessages = 1000
)

// A stored message.
type stored struct {
	subject string
	seq     uint64
	header  nats.Header
	data    []byte
}

// head returns the message as a shard's head.
func (m *stored) head() store.Head {
	since, _ := strconv.ParseUint(m.header.Get(headerSince), 10, 64)
	return store.Head{Revision: store.Revision(m.seq), Since: store.Position(since), Value: m.data}
}

// deleted reports whether the message stands for no record.
func (m *stored) deleted() bool { return m.header.Get(headerDeleted) != "" }

// A page is one replica's answer.
type page struct {
	messages []stored
	more     bool   // there are others
	upTo     uint64 // the replica's last sequence; 0 means it did not say
}

// A reader reads streams.
type reader struct{ *api }

// errTooMany: more subjects match than one answer has.
var errTooMany = errors.New("too many results")

// page asks the replicas; one answers, from its own copy, isolated from writes.
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

// readPage reads the messages of an answer, whose last one says how it ended.
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
			return page{}, fmt.Errorf("%w: stream %s: a message without its sequence", store.ErrUnavailable, stream)
		}
		p.messages = append(p.messages, stored{m.Header.Get("Nats-Subject"), seq, m.Header, m.Data})
	}
	return p, nil
}

// leaderHas asks the stream's leader for one message; nil is none.
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

// streamInfo has the properties of a stream that the store reads.
type streamInfo struct {
	Config jetstream.StreamConfig `json:"config"`
	State  struct {
		Messages uint64 `json:"messages"`
		LastSeq  uint64 `json:"last_seq"`
		Bytes    uint64 `json:"bytes"`
	} `json:"state"`
}

// info reads a stream; found is false where there is none. While the servers elect a
// leader for JetStream it waits.
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
