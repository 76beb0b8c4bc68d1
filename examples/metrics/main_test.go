package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/natsproc"
)

// TestNumbersAgree checks that the served metrics agree with what the client counted.
func TestNumbersAgree(t *testing.T) {
	address, err := natsproc.FreeAddress("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	page := make(chan string)
	out := &lastLine{ended: func() { page <- scrape(t, address) }}
	go func() {
		if err := run(t.Context(), options{listen: address, rate: 500, lasts: time.Second}, out); err != nil {
			t.Error(err)
		}
		close(page)
	}()
	metrics, ok := <-page
	if !ok {
		t.Fatal("it printed nothing")
	}
	<-page
	var counted tally
	if err := json.Unmarshal(out.text.Bytes(), &counted); err != nil || counted.Calls == 0 {
		t.Fatalf("it printed %q: %v", out.text.String(), err)
	}
	asked := len(counted.Methods["User/Bid"].Seconds) // each asks an auction
	for name, m := range counted.Methods {
		want := float64(len(m.Seconds))
		if name == "Auction/Highest" {
			want += float64(asked)
		}
		for _, metric := range []string{"rpc_client_call_duration_seconds_count", "rpc_server_call_duration_seconds_count"} {
			if got := sum(t, metrics, metric, `rpc_method="`+name+`"`); got != want {
				t.Errorf("%s of %s is %v, and the client made %v calls", metric, name, got, want)
			}
		}
	}
	if got := sum(t, metrics, "shardgen_members", ""); got != 3 {
		t.Errorf("%v members, want 3", got)
	}
	for _, user := range []string{rules, board} {
		used := regexp.MustCompile(`\b(?:shardgen_(?:process|member|shards|entities|call|events|buffer|move|store|frame)|rpc_\w+_seconds)\w*`).FindAllString(read(t, user), -1)
		if len(used) < 8 {
			t.Errorf("%s uses only %v", user, used)
		}
		for _, name := range used {
			if strings.HasPrefix(name, "shardgen_move_outcome") || strings.HasPrefix(name, "shardgen_move_pause") {
				continue // a label, and a metric that only a move has
			}
			if !strings.Contains(metrics, "\n"+name+"{") && !strings.Contains(metrics, "\n"+name+" ") {
				t.Errorf("%s uses %s, which is not served", user, name)
			}
		}
	}
}

// A lastLine calls a function when the program writes its last line, while the program still serves
// metrics.
type lastLine struct {
	text  bytes.Buffer
	ended func()
}

func (l *lastLine) Write(p []byte) (int, error) {
	n, err := l.text.Write(p)
	l.ended()
	return n, err
}

func scrape(t *testing.T, address string) string {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// sum returns the sum of the values of a metric that have the label.
func sum(t *testing.T, metrics, name, label string) (sum float64) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?m)^`+name+`(\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(metrics, -1) {
		if !strings.Contains(found[1], label) {
			continue
		}
		value, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += value
	}
	return sum
}
