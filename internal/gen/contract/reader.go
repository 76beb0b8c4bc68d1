package contract

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type reader struct {
	c        *Contract
	problems []Problem
}

func (r *reader) fact(line int, words []string) bool {
	retired := false
	if n := len(words); n > 1 && words[n-1] == retiredWord && (words[0] != "enum" || n > 4) { // a constant may be called retiredWord
		retired, words = true, words[:n-1]
	}
	switch {
	case len(words) < 2:
		return false
	case words[0] == "kind":
		return r.kindFact(line, words[1], words[2:], retired)
	case words[0] == "type" && len(words) == 2 && !retired:
		r.typeNamed(words[1], line)
		return true
	case words[0] == "type" && len(words) == 4 && words[2] == "is" && !retired:
		r.typeNamed(words[1], line).Is = words[3]
		return true
	case words[0] == "type" && len(words) == 3 && words[2] == oneofWord && !retired:
		r.typeNamed(words[1], line).Oneof = true
		return true
	case words[0] == "type" && len(words) > 2 && (words[2] == "field" || words[2] == "case"):
		m := r.typeNamed(words[1], line)
		return field(&m.Fields, line, words[3:], retired)
	case words[0] == "enum":
		return r.enumFact(line, words[1:], retired)
	case words[0] == "error":
		e := &Error{Name: words[1], Wire: words[1], Retired: retired, line: line}
		words = words[2:]
		if len(words) > 1 && words[0] == "called" {
			e.Wire, words = words[1], words[2:]
		}
		if len(words) == 2 && words[0] == "is" {
			e.Type, words = words[1], nil
		}
		r.c.Errors = append(r.c.Errors, e)
		return len(words) == 0
	}
	return false
}

func (r *reader) typeNamed(name string, line int) *Message {
	m := r.c.message(name)
	if m == nil {
		m = &Message{Name: name, line: line}
		r.c.Messages = append(r.c.Messages, m)
	}
	return m
}

func (r *reader) enumFact(line int, words []string, retired bool) bool {
	if len(words) != 3 {
		return false
	}
	if !isValue(words[1]) {
		return false
	}
	e := r.c.enum(words[0])
	if e == nil {
		e = &Enum{Name: words[0]}
		r.c.Enums = append(r.c.Enums, e)
	}
	e.Values = append(e.Values, &Value{Name: words[2], Number: words[1], Retired: retired, line: line})
	return true
}

func isValue(word string) bool {
	if strings.HasPrefix(word, `"`) {
		s, err := strconv.Unquote(word)
		return err == nil && model.QuoteValue(s) == word
	}
	if number, ok := new(big.Int).SetString(word, 10); ok {
		return number.String() == word
	}
	_, err := strconv.ParseFloat(word, 64)
	return err == nil || word == "true" || word == "false"
}

func (r *reader) kindFact(line int, name string, words []string, retired bool) bool {
	k := r.c.kind(name)
	if k == nil {
		k = &Kind{Name: name, line: line}
		r.c.Kinds = append(r.c.Kinds, k)
	}
	switch {
	case len(words) == 0:
		k.Retired = retired
		return true
	case words[0] == "method" && len(words) > 1:
		return methodFact(k, line, words[1], words[2:], retired)
	case words[0] == "state":
		indexed := len(words) == 5 && words[4] == indexWord && !retired
		if indexed {
			words = words[:4]
		}
		if !field(&k.State, line, words[1:], retired) {
			return false
		}
		k.State[len(k.State)-1].Indexed = indexed
		return true
	case words[0] == "event":
		return field(&k.Events, line, words[1:], retired)
	case retired:
		return false
	case len(words) == 1 && words[0] == "singleton":
		k.Singleton, k.Shards, k.Hash = true, 1, "xxh64"
		return true
	case len(words) == 1 && words[0] == "pool":
		k.Pool, k.Hash = true, model.PoolHash
		return true
	case len(words) == 1 && words[0] == "durable":
		k.Durable = true
		return true
	case len(words) != 2:
		return false
	case words[0] == "id":
		k.ID = words[1]
		return true
	case words[0] == "hash":
		k.Hash = words[1]
		return true
	case words[0] == "version":
		var err error
		k.Version, err = strconv.Atoi(words[1])
		return err == nil && k.Version > 1
	case words[0] == "ttl":
		var err error
		k.TTL, err = strconv.Atoi(words[1])
		return err == nil && k.TTL > 0
	case words[0] == "shards":
		var err error
		k.Shards, err = strconv.Atoi(words[1])
		return err == nil
	}
	return false
}

func methodFact(k *Kind, line int, name string, words []string, retired bool) bool {
	m := k.method(name)
	if m == nil {
		m = &Method{Name: name, Wire: name, line: line}
		k.Methods = append(k.Methods, m)
	}
	if len(words) > 0 && words[0] == "arg" {
		return field(&m.Args, line, words[1:], retired)
	}
	if len(words) > 0 && words[0] == "result" {
		return field(&m.Results, line, words[1:], retired)
	}
	m.Retired = retired
	if len(words) > 1 && words[0] == "called" {
		m.Wire, words = words[1], words[2:]
	}
	if len(words) > 0 && words[0] == "tell" {
		m.Tell, words = true, words[1:]
	}
	if len(words) > 0 && words[0] == "read" {
		m.Read, words = true, words[1:]
	}
	return len(words) == 0
}

func field(fields *[]*Field, line int, words []string, retired bool) bool {
	if len(words) != 3 {
		return false
	}
	n, err := strconv.Atoi(words[0])
	if err != nil || n < 1 || n > maxNumber {
		return false
	}
	*fields = append(*fields, &Field{Number: n, Name: words[1], Type: words[2], Retired: retired, line: line})
	return true
}

// maxNumber is the largest field number of protobuf.
const maxNumber = 1<<29 - 1
