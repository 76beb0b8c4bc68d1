package natsstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/store"
)

const (
	metaFormat     = "shardgen.format"
	metaType       = "shardgen.type"
	metaPartitions = "shardgen.partitions"
	format         = 1
)

// A layout has a type's number of partitions, and whether its streams are replicated.
type layout struct {
	partitions int
	replicated bool // a write needs several servers
}

// checkStream returns an error for another store's stream, a newer format, or settings that lose
// state or forbid direct reads.
func checkStream(c jetstream.StreamConfig) error {
	written, _ := strconv.Atoi(c.Metadata[metaFormat])
	problem := ""
	switch {
	case written > format:
		problem = fmt.Sprintf("a newer program has written it (format %d, this one knows %d): run that one", written, format)
	case written == 0:
		problem = "it is not of this store: it lacks the metadata " + metaFormat
	case c.MaxAge != 0:
		problem = fmt.Sprintf("it forgets what is older than %v: unset max_age", c.MaxAge)
	case c.MaxMsgsPerSubject > 1 || c.MaxMsgsPerSubject == 1 && !c.AllowMsgTTL: // logs keep all messages; deleted records expire
		problem = fmt.Sprintf("it forgets all but %d messages of a subject: restore max_msgs_per_subject (-1 for a log, 1 otherwise)", c.MaxMsgsPerSubject)
	case c.Retention != jetstream.LimitsPolicy:
		problem = "its retention is not limits: restore it"
	case c.Discard != jetstream.DiscardNew:
		problem = "it drops old messages at its limits: set discard to new"
	case c.Storage != jetstream.FileStorage:
		problem = "it lies in memory: restore it on files"
	case !c.AllowDirect:
		problem = "set allow_direct"
	default:
		return nil
	}
	return fmt.Errorf("%w: stream %s: %s", store.ErrUnavailable, c.Name, problem)
}

type streams struct {
	*writer
	cfg Config

	mu       sync.Mutex        // guards layouts
	layouts  map[string]layout // by type
	places   sync.Map          // store.Shard to its *placed
	creating sync.Mutex        // held while streams are searched for and created
}

func (s *streams) stream(name, subject string, meta map[string]string) jetstream.StreamConfig {
	all := map[string]string{metaFormat: strconv.Itoa(format)}
	maps.Copy(all, meta)
	return jetstream.StreamConfig{
		Name: name, Subjects: []string{subject}, Storage: jetstream.FileStorage, Replicas: s.cfg.Replicas,
		Discard: jetstream.DiscardNew, MaxMsgsPerSubject: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1,
		AllowDirect: true, DenyDelete: true, Metadata: all,
		// A stream that is created again after its deletion gets higher sequences than before;
		// otherwise an old head could match by chance. Sequences are below 2^53, which every JSON
		// reader keeps exactly.
		FirstSeq: uint64(time.Now().Unix()) << 20,
	}
}

// recordStream returns the configuration of a stream that keeps the last message of each subject.
func (s *streams) recordStream(name, subject string, meta map[string]string) jetstream.StreamConfig {
	c := s.stream(name, subject, meta)
	c.MaxMsgsPerSubject, c.AllowMsgTTL, c.AllowAtomicPublish = 1, true, true
	return c
}

// create creates a stream, or accepts one that another process has created. While servers are
// unavailable, it waits until ctx ends. While another process is creating the stream, it waits for
// at most Config.Timeout.
func (s *streams) create(ctx context.Context, c jetstream.StreamConfig) error {
	began := time.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var info streamInfo
		err := s.call(ctx, "STREAM.CREATE."+c.Name, c, &info)
		var refused *apiError
		if err == nil || errors.As(err, &refused) && refused.ErrCode == codeNameInUse {
			// While another process creates the stream, the name is in use although the stream is
			// not there yet.
			_, there, err := s.info(ctx, c.Name)
			if err != nil || there || time.Since(began) > s.timeout || !pause(ctx, wait) {
				return err
			}
			continue
		}
		if refused == nil {
			return unavailable(err)
		}
		passing := refused.ErrCode == codeUnavailable || refused.Code == 503
		if !passing || !pause(ctx, wait) {
			return fmt.Errorf("create stream %s: %w", c.Name, refused.unapplied(c.Name))
		}
	}
}

// found reads a type's layout from the metadata of its last created stream.
func found(info streamInfo) (layout, error) {
	partitions, err := strconv.Atoi(info.Config.Metadata[metaPartitions])
	if err != nil || partitions < 1 || partitions > maxPartitions {
		return layout{}, fmt.Errorf("%w: stream %s: metadata %s is %q: want a number of partitions (restore the metadata)",
			store.ErrUnavailable, info.Config.Name, metaPartitions, info.Config.Metadata[metaPartitions])
	}
	return layout{partitions, info.Config.Replicas > 1}, nil
}

// placed is a shard's place and layout, which do not change.
type placed struct {
	place  place
	layout layout
}

// layoutOf finds or creates a type's streams. The first partition's log is created last, and its
// metadata has the number of partitions. If that log exists, any missing stream was deleted.
func (s *streams) layoutOf(ctx context.Context, name string) (layout, error) {
	s.mu.Lock()
	known, ok := s.layouts[name]
	s.mu.Unlock()
	if ok {
		return known, nil
	}
	s.creating.Lock()
	defer s.creating.Unlock()
	token := typeToken(name)
	last := streamName(s.cfg.Name, token, partLog, 0)
	info, there, err := s.info(ctx, last)
	if err == nil && !there {
		if err = s.createType(ctx, name, token); err == nil {
			if info, there, err = s.info(ctx, last); err == nil && !there {
				err = fmt.Errorf("%w: %w", store.ErrUnavailable, missing(last))
			}
		}
	}
	if err != nil {
		return layout{}, err
	}
	l, err := found(info)
	if err != nil {
		return layout{}, err
	}
	for p := range l.partitions {
		for _, part := range []string{partLog, partRecords} {
			stream := streamName(s.cfg.Name, token, part, p)
			if _, there, err := s.info(ctx, stream); err != nil {
				return layout{}, err
			} else if !there {
				return layout{}, fmt.Errorf("%w: %w", store.ErrUnavailable, missing(stream))
			}
		}
	}
	s.mu.Lock()
	s.layouts[name] = l
	s.mu.Unlock()
	return l, nil
}

// createType creates a type's missing streams. It fails if an existing stream has data.
func (s *streams) createType(ctx context.Context, name, token string) error {
	last := streamName(s.cfg.Name, token, partLog, 0)
	if s.cfg.NoCreate {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, missing(last))
	}
	meta := map[string]string{metaType: strconv.QuoteToASCII(name), metaPartitions: strconv.Itoa(s.cfg.Partitions)}
	for p := s.cfg.Partitions - 1; p >= 0; p-- {
		records := streamName(s.cfg.Name, token, partRecords, p)
		logs := streamName(s.cfg.Name, token, partLog, p)
		for _, c := range []jetstream.StreamConfig{
			s.recordStream(records, streamSubjects(s.cfg.Name, token, partRecords, p), meta),
			s.stream(logs, streamSubjects(s.cfg.Name, token, partLog, p), meta),
		} {
			info, there, err := s.info(ctx, c.Name)
			if err != nil {
				return err
			}
			if there && info.State.Messages > 0 && c.Name != last {
				again, ok, err := s.info(ctx, last)
				if err != nil {
					return err
				}
				if ok && again.Config.Name == last {
					return nil // another process has finished meanwhile
				}
				return fmt.Errorf("%w: %w, but stream %s has data", store.ErrUnavailable, missing(last), c.Name)
			}
			if !there {
				if err := s.create(ctx, c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *streams) place(ctx context.Context, sh store.Shard) (place, layout, error) {
	if known, ok := s.places.Load(sh); ok {
		p := known.(*placed)
		return p.place, p.layout, nil
	}
	if err := sh.Check(); err != nil {
		return place{}, layout{}, err
	}
	l, err := s.layoutOf(ctx, sh.Type)
	if err != nil {
		return place{}, layout{}, err
	}
	p := &placed{placeOf(s.cfg.Name, sh, l.partitions), l}
	s.places.Store(sh, p)
	return p.place, l, nil
}

// mayAnswerLater reports whether err may mean that servers are starting, without leader or
// connection.
func mayAnswerLater(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errLost) || errors.Is(err, errAway)
}

func (s *streams) openKeys(ctx context.Context) error {
	stream := keysStream(s.cfg.Name)
	_, there, err := s.info(ctx, stream)
	for mayAnswerLater(err) && pause(ctx, reconnectWait) {
		_, there, err = s.info(ctx, stream)
	}
	if err != nil || there {
		return err
	}
	if s.cfg.NoCreate {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, missing(stream))
	}
	c := s.recordStream(stream, s.cfg.Name+".k.>", nil)
	c.Subjects = append(c.Subjects, s.cfg.Name+".l.>")
	if err := s.create(ctx, c); err != nil {
		return err
	}
	_, _, err = s.info(ctx, stream)
	return err
}

type listed struct {
	Total   int          `json:"total"`
	Streams []streamInfo `json:"streams"`
}

func (s *streams) types(ctx context.Context) ([]Type, error) {
	byName := make(map[string]*Type)
	request := struct {
		Offset  int    `json:"offset"`
		Subject string `json:"subject"`
	}{Subject: s.cfg.Name + ".t.>"}
	for {
		var page listed
		if err := s.inquire(ctx, "STREAM.LIST", request, &page); err != nil {
			return nil, repeatableError(err, s.cfg.Name+"_*")
		}
		for _, info := range page.Streams {
			name, err := strconv.Unquote(info.Config.Metadata[metaType])
			if err != nil {
				continue // the stream does not belong to this store
			}
			t := byName[name]
			if t == nil {
				t = &Type{Name: name, Replicas: info.Config.Replicas}
				byName[name] = t
			}
			t.streams = append(t.streams, info.Config.Name)
			t.Bytes += info.State.Bytes
		}
		request.Offset += len(page.Streams)
		if len(page.Streams) == 0 || request.Offset >= page.Total {
			break
		}
	}
	var types []Type
	for _, t := range byName {
		slices.Sort(t.streams)
		types = append(types, *t)
	}
	slices.SortFunc(types, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	return types, nil
}

// forget makes the next use of a type look for its streams.
func (s *streams) forget(name string) {
	s.mu.Lock()
	delete(s.layouts, name)
	s.mu.Unlock()
	s.places.Range(func(key, _ any) bool {
		if key.(store.Shard).Type == name {
			s.places.Delete(key)
		}
		return true
	})
}
