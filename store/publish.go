package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Publisher is a store whose server also keeps streams of messages that other programs read. If a
// [Backend] is a Publisher, entities can publish. All methods are safe for concurrent use.
type Publisher interface {
	// CheckSubject returns an error that wraps ErrBadKey if the store does not publish on the
	// subject: the function [CheckSubject] refuses it, or the store uses the subject itself.
	CheckSubject(subject string) error
	// Publish adds m to the stream that has m's subject, unless the stream has a message with m's
	// ID. It makes one attempt. After any error the same message may be published again, with
	// Message.First set. Errors: ErrNoStream, ErrUnavailable, ErrUncertain, ErrTooLarge, ErrBadKey.
	Publish(ctx context.Context, m Message) error
	// Send sends data once to the programs that subscribe to the subject now. A nil error does not
	// mean that any of them has received it. Errors: ErrUnavailable, ErrTooLarge, ErrBadKey.
	Send(ctx context.Context, subject string, data []byte) error
}

// A Message is a message to publish.
type Message struct {
	Subject string // as CheckSubject allows it
	// ID is different for every message of a store: 1 to MaxMessageID printable ASCII bytes without
	// spaces.
	ID   string
	Data []byte
	// First is the earliest time at which a message with this ID may have been published, by the
	// store's [Clock]. Zero means that it was not published before. First must not be later than that
	// earliest time by more than ClockMargin.
	First time.Time
}

// Bounds of messages.
const (
	MaxSubject   = 256  // bytes
	MaxMessageID = 1024 // bytes
	// ClockMargin is how much the time of [Clock] may differ from the times that a stream gives its
	// messages.
	ClockMargin = 5 * time.Second
)

// ErrNoStream: no stream has the subject, so nobody would keep the message.
var ErrNoStream = errors.New("no stream has the subject (create the stream, or add the subject to one)")

// CheckSubject returns an error that wraps ErrBadKey unless subject has 1 to MaxSubject bytes and
// consists of tokens of printable ASCII without spaces, joined by single dots. The tokens * and > are
// refused, and a first token that begins with $ or is _INBOX, because servers use these subjects.
func CheckSubject(subject string) error {
	if len(subject) > MaxSubject {
		return fmt.Errorf("%w: the subject has %d bytes: want at most %d", ErrBadKey, len(subject), MaxSubject)
	}
	for token := range strings.SplitSeq(subject, ".") {
		switch token {
		case "":
			return fmt.Errorf("%w: subject %q: empty, or an empty token", ErrBadKey, subject)
		case "*", ">":
			return fmt.Errorf("%w: subject %q: a wildcard (want one subject)", ErrBadKey, subject)
		}
	}
	if !printable(subject) {
		return fmt.Errorf("%w: subject %q: want printable ASCII without spaces", ErrBadKey, subject)
	}
	if first, _, _ := strings.Cut(subject, "."); first[0] == '$' || first == "_INBOX" {
		return fmt.Errorf("%w: subject %q: servers use subjects that begin with %s (want another one)", ErrBadKey, subject, first)
	}
	return nil
}

// CheckMessageID returns an error that wraps ErrBadKey unless id is valid; see [Message].
func CheckMessageID(id string) error {
	if id == "" || len(id) > MaxMessageID || !printable(id) {
		return fmt.Errorf("%w: message id %q: want 1 to %d printable ASCII bytes without spaces", ErrBadKey, id, MaxMessageID)
	}
	return nil
}

func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
