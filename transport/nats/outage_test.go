package natstransport

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// TestOutage tests the log lines about the ends of several channels' connections.
func TestOutage(t *testing.T) {
	cause, refused, denied := errors.New("reset"), errors.New("refused"), errors.New("denied")
	wait := func(d time.Duration) { <-time.After(d) }
	lose := func(o *outage) {
		for ch := transport.Control; ch < 2; ch++ {
			o.lost(ch, "s1", cause)
		}
	}
	restore := func(o *outage) {
		for ch := transport.Control; ch < 2; ch++ {
			o.restored(ch, "s2")
		}
	}
	for name, tt := range map[string]struct {
		run  func(o *outage)
		want string
	}{
		"a restart is one line": {
			func(o *outage) { lose(o); o.failed(refused); wait(tellAfter / 2); restore(o); wait(tellAfter) },
			`level=INFO msg="broker connections lost and restored" from=s1 to=s2 cause=reset channels=3 after=500ms`,
		},
		"one that lasts is two, with what hinders": {
			func(o *outage) { lose(o); o.failed(refused); wait(3 * tellAfter); o.failed(refused); restore(o) },
			`level=WARN msg="broker connections lost" server=s1 cause=reset channels=3 after=1s reach="refused (is a NATS server running there?)"
level=INFO msg="broker connections restored" from=s1 to=s2 cause=reset channels=3 after=3s`,
		},
		"another hindrance is told": {
			func(o *outage) {
				lose(o)
				wait(2 * tellAfter)
				for range 5 {
					o.failed(denied)
				}
			},
			`level=WARN msg="broker connections lost" server=s1 cause=reset channels=3 after=1s reach=""
level=WARN msg="broker out of reach" cause="denied (is a NATS server running there?)"`,
		},
		"what is not all back lasts": {
			func(o *outage) { lose(o); o.restored(1, "s2"); wait(tellAfter) },
			`level=WARN msg="broker connections lost" server=s1 cause=reset channels=2 after=1s reach=""`,
		},
		"each is told": {
			func(o *outage) { lose(o); restore(o); lose(o); restore(o) },
			strings.Repeat("\n"+`level=INFO msg="broker connections lost and restored" from=s1 to=s2 cause=reset channels=3 after=0s`, 2)[1:],
		},
		"a closed link says nothing": {
			func(o *outage) { lose(o); o.close(); wait(2 * tellAfter); o.failed(refused); restore(o) },
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b strings.Builder
				o := &outage{log: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{
					ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
						if a.Key == slog.TimeKey {
							return slog.Attr{}
						}
						return a
					},
				}))}
				tt.run(o)
				synctest.Wait()
				if got := strings.TrimSuffix(b.String(), "\n"); got != tt.want {
					t.Errorf("logged\n%s\nwant\n%s", got, tt.want)
				}
			})
		})
	}
}
