package natsstore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/store"
)

// maxTypeToken bounds a type's name in streams' names, in bytes, because the server names folders
// after streams. Longer names are hashed.
const maxTypeToken = 160

// long is the prefix of a token in base64. Escaped tokens never begin with it.
const long = "=="

func plainName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

func plainID(c byte) bool {
	return c > ' ' && c <= '~' && !strings.ContainsRune(`.*>="\`, rune(c))
}

// escape replaces bytes for which plain is false by = and two hexadecimal digits.
func escape(s string, plain func(byte) bool) string {
	odd := 0
	for i := range len(s) {
		if !plain(s[i]) {
			odd++
		}
	}
	if odd == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+2*odd)
	for i := range len(s) {
		if plain(s[i]) {
			b = append(b, s[i])
			continue
		}
		b = append(b, '=')
		b = append(b, strings.ToUpper(hex.EncodeToString([]byte{s[i]}))...)
	}
	return string(b)
}

// longEscaped is the size in bytes up to which an id's escaped form is used.
const longEscaped = 32

// idToken escapes an id, or encodes a long id as base64 if that is shorter. The longest token has
// 1,389 bytes; the server accepts lines of 4,096.
func idToken(id string) string {
	token := escape(id, plainID)
	if len(token) > longEscaped && len(token) > len(long)+base64.RawURLEncoding.EncodedLen(len(id)) {
		return long + base64.RawURLEncoding.EncodeToString([]byte(id))
	}
	return token
}

// idOf reverses idToken.
func idOf(token string) (string, error) {
	if text, ok := strings.CutPrefix(token, long); ok {
		id, err := base64.RawURLEncoding.DecodeString(text)
		return string(id), err
	}
	var id strings.Builder
	for {
		plain, rest, found := strings.Cut(token, "=")
		id.WriteString(plain)
		if !found {
			return id.String(), nil
		}
		if len(rest) < 2 {
			return "", fmt.Errorf("the token %q ends within an escape", token)
		}
		b, err := hex.DecodeString(rest[:2])
		if err != nil {
			return "", err
		}
		id.Write(b)
		token = rest[2:]
	}
}

// typeToken returns the token for a type's name in streams' names.
func typeToken(name string) string {
	token := escape(name, plainName)
	if len(token) > maxTypeToken {
		sum := sha256.Sum256([]byte(name))
		return long + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return token
}

type place struct {
	logs, records string // the streams
	log, head     string // subjects
	entities      string // subjects of records, without the token of the id
	heads         string // subjects of all heads in the stream
}

// placeOf returns the place of a shard, given its type's number of pairs of streams.
func placeOf(name string, s store.Shard, partitions int) place {
	token := typeToken(s.Type)
	p := s.Number % partitions
	prefix := fmt.Sprintf("%s.t.%s", name, token)
	shard := strconv.Itoa(s.Number)
	return place{
		logs:     streamName(name, token, partLog, p),
		records:  streamName(name, token, partRecords, p),
		log:      fmt.Sprintf("%s.log.%d.%s", prefix, p, shard),
		head:     fmt.Sprintf("%s.rec.%d.head.%s", prefix, p, shard),
		entities: fmt.Sprintf("%s.rec.%d.of.%s.", prefix, p, shard),
		heads:    fmt.Sprintf("%s.rec.%d.head.*", prefix, p),
	}
}

// headOf returns the subject of another head in the same stream.
func (p place) headOf(number int) string {
	return strings.TrimSuffix(p.heads, "*") + strconv.Itoa(number)
}

const (
	partLog     = "log"
	partRecords = "rec"
)

func streamName(name, token, part string, partition int) string {
	return fmt.Sprintf("%s_%s_%s_%d", name, token, part, partition)
}

func streamSubjects(name, token, part string, partition int) string {
	return fmt.Sprintf("%s.t.%s.%s.%d.>", name, token, part, partition)
}

func keysStream(name string) string { return name + "_keys" }

func keySubject(name, key string) string {
	return name + ".k." + strings.ReplaceAll(key, "/", ".")
}

func leaseSubject(name, key string) string {
	return name + ".l." + strings.ReplaceAll(key, "/", ".")
}
