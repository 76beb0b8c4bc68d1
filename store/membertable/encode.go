package membertable

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shardgen/shardgen/store"
)

// encoded is a row in JSON, for people.
type encoded struct {
	Name        string      `json:"name"`
	Incarnation hexadecimal `json:"incarnation"`
	Status      Status      `json:"status,omitempty"`
	Roles       []string    `json:"roles,omitempty"`
	Data        []byte      `json:"data,omitempty"`
	Suspicions  []vote      `json:"suspicions,omitempty"`
	Started     time.Time   `json:"started,omitzero"`
}

type vote struct {
	Name        string      `json:"name"`
	Incarnation hexadecimal `json:"incarnation"`
	At          time.Time   `json:"at,omitzero"`
}

// hexadecimal is written as text, because many JSON readers lose a number's lowest digits.
type hexadecimal uint64

func (h hexadecimal) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(h)), nil }

func (h *hexadecimal) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*h = hexadecimal(n)
	return err
}

// check fails with store.ErrBadKey for a row that some tables cannot keep.
func check(row Row) error {
	if err := CheckName(row.Name); err != nil {
		return err
	}
	for _, text := range append([]string{string(row.Status)}, row.Roles...) {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return fmt.Errorf("%w: row %v: text %q (want UTF-8 without NUL)", store.ErrBadKey, row.ID, text)
		}
	}
	at := []time.Time{row.Started}
	for _, s := range row.Suspicions {
		if err := CheckName(s.By.Name); err != nil {
			return fmt.Errorf("row %v: suspicion: %w", row.ID, err)
		}
		at = append(at, s.At)
	}
	for _, t := range at {
		if year := t.UTC().Year(); year < 1 || year > 9999 {
			return fmt.Errorf("%w: row %v: time %v (want a year from 1 to 9999)", store.ErrBadKey, row.ID, t)
		}
	}
	return nil
}

// Encode checks a row and returns it as JSON, without Alive and Version, for tables that store
// bytes. Other tables call Encode only to check rows. It fails with store.ErrBadKey and
// store.ErrTooLarge.
func Encode(row Row) ([]byte, error) {
	if err := check(row); err != nil {
		return nil, err
	}
	e := encoded{
		Name: row.Name, Incarnation: hexadecimal(row.Incarnation), Status: row.Status,
		Roles: row.Roles, Data: row.Data, Started: Time(row.Started),
	}
	for _, s := range row.Suspicions {
		e.Suspicions = append(e.Suspicions, vote{s.By.Name, hexadecimal(s.By.Incarnation), Time(s.At)})
	}
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("%w: row %v: %w", store.ErrBadKey, row.ID, err)
	}
	return data, store.CheckSize(len(data), MaxRow)
}

// EncodeAll encodes the rows of one Write, each as Encode does. It also checks the number of rows,
// the sum of their sizes, and that no ID occurs twice.
func EncodeAll(rows []Row) ([][]byte, error) {
	ids, list, size := make([]ID, 0, len(rows)), make([][]byte, 0, len(rows)), 0
	for _, row := range rows {
		data, err := Encode(row)
		if err != nil {
			return nil, err
		}
		size += len(data)
		ids, list = append(ids, row.ID), append(list, data)
	}
	if err := CheckIDs(ids); err != nil { // MaxRows is MaxDelete
		return nil, err
	}
	return list, store.CheckSize(size, MaxRow)
}

// Decode decodes a row that Encode has encoded.
func Decode(data []byte) (Row, error) {
	var e encoded
	if err := json.Unmarshal(data, &e); err != nil {
		return Row{}, fmt.Errorf("row of a membership table: %w", err)
	}
	row := Row{
		ID: ID{e.Name, uint64(e.Incarnation)}, Status: e.Status, Roles: e.Roles, Data: e.Data, Started: Time(e.Started),
	}
	for _, v := range e.Suspicions {
		row.Suspicions = append(row.Suspicions, Suspicion{ID{v.Name, uint64(v.Incarnation)}, Time(v.At)})
	}
	return row, nil
}

// Time returns t as tables keep times: in UTC, to the microsecond.
func Time(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
