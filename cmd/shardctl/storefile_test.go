package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckLines: files that are cut off, or lack lines, are refused.
func TestCheckLines(t *testing.T) {
	const (
		kind   = `{"format":3,"type":"X","cluster":"c","shards":2}` + "\n"
		first  = `{"type":"X","shard":2,"image":{"head":"aGk="}}` + "\n"
		last   = `{"type":"X","shard":2,"image":{"head":"aGk=","last":true}}` + "\n"
		other  = `{"type":"X","shard":3,"image":{"head":"aGk=","last":true}}` + "\n"
		entity = `{"type":"X","shard":2,"id":"a"}` + "\n"
		cut    = "the file is not complete: its closing line is missing"
	)
	end := func(types, images, entities int) string {
		return fmt.Sprintf(`{"end":{"types":%d,"images":%d,"entities":%d}}`+"\n", types, images, entities)
	}
	for _, tt := range []struct {
		name, file, want string // want "": it is complete
	}{
		{"whole", kind + first + first + last + entity + other + end(1, 4, 1), ""},
		{"of no types", end(0, 0, 0), ""},
		{"two exports", kind + entity + end(1, 0, 1) + kind + entity + end(1, 0, 1), ""},
		{"two exports with images", kind + last + end(1, 1, 0) + kind + other + end(1, 1, 0), ""},
		{"the same export twice", kind + last + end(1, 1, 0) + kind + last + end(1, 1, 0), "line 5: the file has a second image of shard X/2"},
		{"without the type's line", kind + strings.ReplaceAll(last, "X", "Y") + end(1, 1, 0), "line 2: shard Y/2: the line of its type must come first"},
		{"format 1", strings.Replace(kind, "3", "1", 1) + entity, ""},
		{"format 2", strings.Replace(kind, "3", "2", 1) + last + entity, cut},
		{"empty", "", cut},
		{"cut off behind a line", kind + last + entity, cut},
		{"cut off within a line", kind + last + entity[:9], cut},
		{"cut off behind an export", kind + entity + end(1, 0, 1) + kind, cut},
		{"cut off in an image", kind + first, "the image of shard X/2 is not complete"},
		{"an entity within an image", kind + first + entity + end(1, 1, 1), "the image of shard X/2 is not complete"},
		{"an image without its end", kind + first + other + end(1, 2, 0), "the image of shard X/2 is not complete"},
		{"the end within an image", kind + first + end(1, 1, 0), "the image of shard X/2 is not complete"},
		{"a lost part", kind + first + last + end(1, 3, 0), "counts 1 types, 3 parts of images and 0 entities, but the file has 1 types, 2 parts of images and 0 entities"},
		{"a lost entity", kind + last + entity + end(1, 1, 2), "line 4: the closing line counts"},
		{"later", strings.Replace(kind, "3", "4", 1) + end(1, 0, 0), "format 4, this program reads up to 3"},
	} {
		err := checkLines(strings.NewReader(tt.file))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestCutExport: an export that was cut off, wherever it was, is refused before anything is
// written. The whole export is imported then.
func TestCutExport(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	client, stop := hostWallets(t, url)
	fillWallets(t, client)
	stop()
	file := filepath.Join(t.TempDir(), "wallets.json")
	args := "store export -nats " + url + " -o " + file
	shardctl(t, nil, args).check(t, args, exitOK, "", "")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
	other := runJetStream(t, t.TempDir()).URL()
	for n := 0; n < len(lines); n += 20 {
		part := filepath.Join(t.TempDir(), "part.json")
		if err := os.WriteFile(part, []byte(strings.Join(lines[:n], "")), 0o600); err != nil {
			t.Fatal(err)
		}
		args := "store import -nats " + other + " -from " + part
		shardctl(t, nil, args).check(t, args, exitFailed, "", part+": the file is not complete: its closing line is missing")
		args = "store list -nats " + other
		if got := shardctl(t, nil, args); got.code != exitOK || strings.Contains(got.stdout, "Wallet") {
			t.Fatalf("after %d lines the store has %q", n, got.stdout)
		}
	}
	args = "store import -nats " + other + " -from " + file
	shardctl(t, nil, args).check(t, args, exitOK, "40 entities of 1 types are in the store", "")

	// Import takes the entities from the images, even if the lines of the entities are missing.
	kept := lines[:0:0]
	for _, l := range lines {
		if !strings.Contains(l, `"id":`) {
			kept = append(kept, strings.Replace(l, `"entities":40`, `"entities":0`, 1))
		}
	}
	if err := os.WriteFile(file, []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	args = "store import -replace -nats " + other + " -from " + file
	shardctl(t, nil, args).check(t, args, exitOK, "40 entities of 1 types are in the store", "")
}

// TestFailedExport: an export that fails leaves the earlier file as it was, and no temporary file
// beside it.
func TestFailedExport(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	client, accounts, stop := hostBoth(t, url)
	fillWallets(t, client)
	if _, err := accounts.Ref("a").Enter(t.Context(), 1, ""); err != nil {
		t.Fatal(err)
	}
	stop()
	dir := t.TempDir()
	file := filepath.Join(dir, "all.json")
	ctl := func(args string, code int, stderr string) {
		t.Helper()
		shardctl(t, map[string]string{"NATS_URL": url}, args).check(t, args, code, "", stderr)
	}
	ctl("store export -o "+file, exitOK, "")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, url)
	r, err := s.Get(t.Context(), "types/Wallet") // Account comes before
	if err == nil {
		_, err = s.Put(t.Context(), r.Key, []byte("garbage"), r.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctl("store export -o "+file, exitFailed, "type Wallet: record")
	ctl("store export Account nobody -o "+file, exitFailed, "Account/nobody is not in the store")
	ctl("store export -o "+filepath.Join(dir, "none", "all.json"), exitFailed, "no such file")
	if now, err := os.ReadFile(file); err != nil || string(now) != string(good) {
		t.Errorf("the earlier file has %d bytes (%v), want its %d", len(now), err, len(good))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v: want the file alone", left, err)
	}
}

// TestReplaceFile: a file keeps its permissions, a link its target, and a device is written directly.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	say := func(w io.Writer) error {
		if now, err := os.ReadFile(file); err != nil || string(now) != "old" {
			t.Errorf("meanwhile the file has %q, %v", now, err)
		}
		_, err := io.WriteString(w, "new")
		return err
	}
	for _, path := range []string{os.DevNull, link} {
		if err := replaceFile(path, say); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Lstat(file)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("the file: %v, %v, want its permissions 0640", info.Mode(), err)
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != "new" {
		t.Errorf("the file has %q, %v", now, err)
	}
	if to, err := os.Readlink(link); err != nil || to != file {
		t.Errorf("the link is to %q, %v", to, err)
	}
}

// TestImportOfFormat1 reads a file that the first format's export wrote: entities without images,
// which today's programs must be able to restore. The file is never written again.
func TestImportOfFormat1(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	ctl := shardctlAt(t, url)
	ctl("store import -from testdata/export1.json", exitOK, "40 entities of 1 types are in the store", "")
	ctl("store verify", exitOK, "40 entities can be read", "")
	client, stop := hostWallets(t, url)
	defer stop()
	checkWallets(t, client)
}
