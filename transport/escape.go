package transport

import (
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/internal/util/bounded"
)

const hexDigits = "0123456789ABCDEF"

// EscapeID writes an entity's id as one word of a subject. Letters, digits, _ and - stay as they
// are; each other byte becomes =HH.
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

// UnescapeID reverses EscapeID. It refuses a word that EscapeID would not write; if such a word can
// be decoded, the error names the word that EscapeID writes. So each entity has only one subject,
// and no other spelling evades a permission for that subject.
func UnescapeID(word string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		if word[i] != '=' {
			b.WriteByte(word[i])
			continue
		}
		if i+2 >= len(word) {
			return "", fmt.Errorf("unescape id %q: = at its end (want =HH)", bounded.Text(word))
		}
		high := strings.IndexByte(hexDigits, upper(word[i+1]))
		low := strings.IndexByte(hexDigits, upper(word[i+2]))
		if high < 0 || low < 0 {
			return "", fmt.Errorf("unescape id %q: %q is not a byte (want =HH)", bounded.Text(word), word[i:i+3])
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	id := b.String()
	if canonical := EscapeID(id); canonical != word {
		return "", fmt.Errorf("unescape id %q: in a subject it must be %q", bounded.Text(word), bounded.Text(canonical))
	}
	return id, nil
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'f' {
		return c - 'a' + 'A'
	}
	return c
}
