package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/runtime/admin/dashboard"
)

// TestDashboard serves the page of a live cluster, and asks it for all that the page shows.
func TestDashboard(t *testing.T) {
	t.Parallel()
	env, _, client := accounts(t)
	_, err := client.Ref("ann").Add(t.Context(), 9007199254740993) // which a browser's numbers do not hold
	require.NoError(t, err)
	shardctl(t, env, "dashboard -listen nowhere").check(t, "dashboard", exitFailed, "", "nowhere")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, stdout := io.Pipe()
	ended := make(chan outcome)
	var stderr bytes.Buffer
	go func() {
		code := run(ctx, strings.Fields("dashboard -listen 127.0.0.1:0 -state"), func(key string) string { return env[key] }, stdout, &stderr)
		ended <- outcome{code: code, stderr: stderr.String()}
	}()
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	get := func(path string, into any) {
		answer, err := http.Get(strings.TrimSpace(url) + path)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.NoError(t, json.NewDecoder(answer.Body).Decode(into))
	}
	var cluster struct {
		Health  clusterview.Health
		Members []struct{ Name string }
		Types   []struct {
			Name     string
			Entities int
		}
		Events []struct{ Text string }
	}
	get("api/cluster", &cluster)
	require.Equal(t, "shop", cluster.Health.Cluster)
	require.Len(t, cluster.Members, 2)
	require.Equal(t, "Account", cluster.Types[0].Name)
	require.Equal(t, 1, cluster.Types[0].Entities)
	require.NotEmpty(t, cluster.Events)
	var shards struct {
		First uint32
		Homes []int
	}
	get("api/shards?type=Account", &shards)
	require.Len(t, shards.Homes, 256)
	require.NotContains(t, shards.Homes, -1)
	var ann struct {
		Shard       uint32
		Node, State string
	}
	get("api/entity?type=Account&id=ann", &ann)
	require.Equal(t, cluster.Members[shards.Homes[ann.Shard-shards.First]].Name, ann.Node)
	require.Contains(t, ann.State, `"Balance": 9007199254740993`)

	var found struct{ Entities []struct{ ID string } }
	get("api/entities?type=Account&prefix=an", &found)
	require.Equal(t, "ann", found.Entities[0].ID)
	var member struct {
		Known      bool
		MaxPayload int `json:"max_payload"`
	}
	get("api/member?name=n1", &member)
	require.True(t, member.Known)
	require.Positive(t, member.MaxPayload)
	var refused struct{ Error string }
	get("api/feeds", &refused)
	require.Contains(t, refused.Error, "has no store")
	var checks struct{ Checks []dashboard.Check }
	get("api/store", &checks)
	require.Equal(t, "not checked: no member that answers has a store", checks.Checks[0].Text)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSpace(url), nil)
	require.NoError(t, err)
	request.Host = "evil.example:80"
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusForbidden, answer.StatusCode)

	stop()
	o := <-ended
	require.Equal(t, exitOK, o.code, o.stderr)
}

func TestOnlyLoopback(t *testing.T) {
	handler := onlyLoopback(http.NotFoundHandler())
	for host, code := range map[string]int{
		"localhost": 404, "localhost:8181": 404, "127.0.0.1:8181": 404, "[::1]:8181": 404, "127.1.2.3": 404,
		"": 403, "evil.example": 403, "localhost.evil.example:8181": 403, "10.0.0.1:8181": 403, "[::1].evil.example": 403,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, code, w.Code, host)
	}
}
