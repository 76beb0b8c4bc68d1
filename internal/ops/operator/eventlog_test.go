package operator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLog(t *testing.T) {
	var l EventLog
	lines, last := l.After(0, 1000)
	require.Empty(t, lines)
	require.Zero(t, last)
	for i := range 3 {
		l.Add(Line{Text: fmt.Sprint(i)})
	}
	texts := func(seq uint64, bytes int) (texts []string) {
		lines, last := l.After(seq, bytes)
		for i, e := range lines {
			texts = append(texts, e.Text)
			require.True(t, i == 0 || lines[i-1].Seq < e.Seq)
			require.LessOrEqual(t, e.Seq, last)
		}
		return texts
	}
	require.Equal(t, []string{"0", "1", "2"}, texts(0, 1000))
	require.Equal(t, []string{"2"}, texts(2, 1000))
	require.Empty(t, texts(3, 1000))
	require.Equal(t, []string{"0", "1"}, texts(0, 2+2*lineBytes))
	require.Equal(t, []string{"1"}, texts(1, 0), "one at least")
	require.Equal(t, []string{"0", "1", "2"}, texts(9, 1000), "the numbers of an earlier process")
	for i := range 2 * keptLines {
		l.Add(Line{Text: fmt.Sprint(3 + i)})
	}
	all := texts(0, 1<<20)
	require.Len(t, all, keptLines)
	require.Equal(t, fmt.Sprint(2*keptLines+2), all[keptLines-1])
	require.Equal(t, fmt.Sprint(keptLines+3), all[0])
	l.AddBulk(Line{Text: "x"})
	for range keptLines {
		l.AddBulk(Line{Text: "y"})
	}
	all = texts(0, 1<<20)
	require.Len(t, all, 2*keptLines, "many lines of shards do not push out the others")
	require.Equal(t, "y", all[keptLines])
	l.Add(Line{Attrs: strings.Repeat("ä", maxAttrBytes)})
	lines, _ = l.After(3*keptLines+4, 1)
	require.Equal(t, strings.Repeat("ä", maxAttrBytes/2)+"… (2000 bytes)", lines[0].Attrs)
}

func TestHandler(t *testing.T) {
	var l EventLog
	var out bytes.Buffer
	log := slog.New(NewLogHandler(&l, slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	begin := time.Now()
	log.Debug("dropped")
	log.Info("kept", "member", "web 1")
	log.With("kind", "User").WithGroup("g").Warn("both", "n", 1)
	lines, _ := l.After(0, 1000)
	require.Len(t, lines, 2)
	require.Equal(t, "kept", lines[0].Text)
	require.Equal(t, `member="web 1"`, lines[0].Attrs)
	require.False(t, lines[0].Time.Before(begin.Round(0)))
	require.Equal(t, "kind=User g.n=1", lines[1].Attrs)
	require.Equal(t, slog.LevelWarn, lines[1].Level)
	require.NotContains(t, out.String(), "kept")
	require.Contains(t, out.String(), "msg=both kind=User g.n=1")
}

// TestHandlerIsAHandler checks that a LogHandler passes on lines as slog requires of handlers.
func TestHandlerIsAHandler(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return NewLogHandler(&EventLog{}, slog.NewJSONHandler(&out, nil))
	}, func(t *testing.T) map[string]any {
		m := map[string]any{}
		require.NoError(t, json.Unmarshal(out.Bytes(), &m))
		return m
	})
}
