package main

import "testing"

// TestImportOfFormat1 reads an export as the first format had it: entities without images, which
// programs of today must be able to restore. The file is never written again.
func TestImportOfFormat1(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	ctl := func(args string, code int, stdout, stderr string) {
		t.Helper()
		shardctl(t, map[string]string{"NATS_URL": url}, args).check(t, args, code, stdout, stderr)
	}
	ctl("store import -from testdata/export1.json", exitOK, "40 entities of 1 types are in the store", "")
	ctl("store verify", exitOK, "40 entities can be read", "")
	client, stop := hostVaults(t, url)
	defer stop()
	checkVaults(t, client)
}
