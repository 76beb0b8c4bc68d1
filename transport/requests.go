package transport

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// A Requester is a [Transport] that also takes requests of any client of the
// broker, whatever its language.
type Requester interface {
	// ServeRequests takes the requests for some kinds until stop is called, which
	// returns when no handler runs any more. They come to
	// sh.<cluster>.gw.<kind>.<method>.<id>, the id as [EscapeID] writes it, or
	// without an id; of the members that serve a kind one gets each.
	ServeRequests(ctx context.Context, o RequestOptions) (stop func(), err error)
}

// RequestOptions say which requests to take.
type RequestOptions struct {
	Cluster string
	Name    string // of this node, for the broker's list of connections
	Kinds   []string
	// Handle is called on a goroutine of its own for each request; at most Limit
	// run at once, and Refuse is called in place of it beyond that.
	Handle, Refuse func(*Request)
	Limit          int
	Logger         *slog.Logger
}

// A Request is a call of a client without generated code.
type Request struct {
	Kind, Method, ID string
	IDErr            error // why ID is not what was meant: a wrong escape in the subject
	ContentType      string
	Timeout          string // as time.ParseDuration reads it; "" when not given
	Body             []byte
	// Answer sends the answer; nil when none is wanted.
	Answer func(header map[string]string, body []byte) error
}

const hexDigits = "0123456789ABCDEF"

// EscapeID writes an entity's id as one word of a subject: letters, digits, _ and
// - stand for themselves, other bytes are =HH.
func EscapeID(id string) string {
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; plain(rune(c)) && c < 0x80 {
			b.WriteByte(c)
		} else {
			b.WriteByte('=')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

// UnescapeID is the reverse of [EscapeID]. Bytes that EscapeID would have escaped
// stand for themselves, so that people can type them.
func UnescapeID(word string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		if word[i] != '=' {
			b.WriteByte(word[i])
			continue
		}
		if i+2 >= len(word) {
			return "", fmt.Errorf("unescape id %q: = at its end (want =HH)", word)
		}
		high := strings.IndexByte(hexDigits, upper(word[i+1]))
		low := strings.IndexByte(hexDigits, upper(word[i+2]))
		if high < 0 || low < 0 {
			return "", fmt.Errorf("unescape id %q: %q is no byte (want =HH)", word, word[i:i+3])
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), nil
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'f' {
		return c - 'a' + 'A'
	}
	return c
}
