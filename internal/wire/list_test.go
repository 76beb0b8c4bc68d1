package wire

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func pageOf(t *testing.T, b []byte, r *ListRequest) (ids []string, more bool, err error) {
	t.Helper()
	p, last, err := ParseListPage(b, r)
	if err != nil {
		return nil, false, err
	}
	for id := p.Next(); id != nil; id = p.Next() {
		ids = append(ids, string(id))
	}
	if n := len(ids); n > 0 && ids[n-1] != string(last) {
		t.Errorf("the last id is %q, but the page ends with %q", last, ids[n-1])
	}
	return ids, p.More(), nil
}

func TestListPage(t *testing.T) {
	tests := []struct {
		name    string
		request ListRequest
		ids     []string
		more    bool
		fails   string
	}{
		{name: "empty"},
		{name: "one", ids: []string{"a"}},
		{name: "all bytes", ids: []string{"\x00", "\x00\x00", "a", "\xff\xfe"}, more: true},
		{name: "long", ids: []string{strings.Repeat("x", 1024)}},
		{name: "behind the cursor", request: ListRequest{Prefix: "de-", After: "de-1"}, ids: []string{"de-10", "de-2"}},
		{name: "at the cursor", request: ListRequest{After: "b"}, ids: []string{"b"}, fails: "out of order"},
		{name: "below the cursor", request: ListRequest{After: "b"}, ids: []string{"a"}, fails: "out of order"},
		{name: "descending", ids: []string{"b", "a"}, fails: "out of order"},
		{name: "twice", ids: []string{"a", "a"}, fails: "out of order"},
		{name: "without the prefix", request: ListRequest{Prefix: "de-"}, ids: []string{"de"}, fails: "out of order"},
		{name: "an empty id", ids: []string{""}, fails: "out of order"},
		{name: "more than nothing", more: true, fails: "has no ids"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := AppendListPage(nil, test.ids, test.more)
			size := MaxListHeader
			for _, id := range test.ids {
				size += ListedSize(id)
			}
			if len(b) > size {
				t.Errorf("%d bytes, want at most %d", len(b), size)
			}
			ids, more, err := pageOf(t, b, &test.request)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("got %v, want an error with %q", err, test.fails)
				}
				return
			}
			if err != nil || more != test.more || !slices.Equal(ids, test.ids) {
				t.Errorf("got %q, %v, %v, want %q, %v", ids, more, err, test.ids, test.more)
			}
		})
	}
}

func FuzzListRequest(f *testing.F) {
	f.Add((&ListRequest{Prefix: "de-", After: "de-7", Limit: 1000, Bytes: 4096, Active: true}).Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseListRequest(b)
		if err != nil {
			return
		}
		again, err := ParseListRequest(r.Append(nil))
		if err != nil || again != r {
			t.Fatalf("got %+v, %v, want %+v", again, err, r)
		}
	})
}

func FuzzDueKey(f *testing.F) {
	f.Add(DueKey(1, "a"))
	f.Fuzz(func(t *testing.T, key string) {
		if at, id, ok := ParseDueKey(key); ok && DueKey(at, id) != key {
			t.Fatalf("got %d and %q for key %q", at, id, key)
		}
	})
}

func FuzzListPage(f *testing.F) {
	f.Add(AppendListPage(nil, []string{"a", "b\x00", "b\xff"}, true), "", "")
	f.Add(AppendListPage(nil, []string{"de-2"}, false), "de-", "de-1")
	f.Fuzz(func(t *testing.T, b []byte, prefix, after string) {
		r := ListRequest{Prefix: prefix, After: after}
		whole := bytes.Clone(b)
		ids, more, err := pageOf(t, b, &r)
		if err != nil {
			return
		}
		if !bytes.Equal(b, whole) {
			t.Fatal("the page was changed")
		}
		for i, id := range ids {
			if id <= after || !strings.HasPrefix(id, prefix) || i > 0 && id <= ids[i-1] {
				t.Fatalf("ids %q, want ascending ones with prefix %q above %q", ids, prefix, after)
			}
		}
		if more && len(ids) == 0 {
			t.Fatal("there are more ids than none")
		}
		got, again, err := pageOf(t, AppendListPage(nil, ids, more), &r)
		if err != nil || again != more || !slices.Equal(got, ids) {
			t.Fatalf("got %q, %v, %v, want %q, %v", got, again, err, ids, more)
		}
	})
}
