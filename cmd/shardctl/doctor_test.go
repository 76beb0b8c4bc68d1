package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/admin"
)

// TestExamineRights: a right that the broker has refused to a member is a fault, with the member and the
// remedy.
func TestExamineRights(t *testing.T) {
	line := func(text string) admin.Event {
		return admin.Event{Node: web1, Line: admin.Line{Time: time.Unix(1, 0), Text: text, Attrs: `cause="Permissions Violation for Publish to \"sh.shop.m.all\""`}}
	}
	found := examineRights([]admin.Event{line("member up")}, nil)
	require.Len(t, found, 1)
	require.True(t, found[0].OK)
	found = examineRights([]admin.Event{line("member up"), line(deniedLine)}, nil)
	require.Len(t, found, 1)
	require.False(t, found[0].OK)
	require.Contains(t, found[0].Text, "web-1 at ")
	require.Contains(t, found[0].Text, "sh.shop.m.all")
	require.Contains(t, found[0].Do, "shardctl permissions worker")
	require.False(t, examineRights(nil, errors.New("web-2 does not answer"))[0].OK)
}
