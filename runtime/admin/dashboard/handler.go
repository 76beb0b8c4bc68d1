package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/admin"
)

//go:embed page
var page embed.FS

// Options configure a [Handler]. The zero value has the defaults.
type Options struct {
	// Cluster is the name of the cluster, which the page shows. Default "".
	Cluster string
	// State reports whether a request's viewer may see the requested entity's state, as JSON. This
	// also needs the client to have an operator's right to command. Each view of a state is logged
	// by Logger with the viewer's address, and by the entity's member with the client's name. State
	// is called concurrently. Default nil: nobody sees states.
	State func(*http.Request) bool
	// Logger logs each view of an entity's state, and errors of the page. Default slog.Default().
	Logger *slog.Logger
	// Checks returns checks that the page shows about the store, such as those of its streams. It
	// is called at most every 10 s, and only while they are viewed. Default nil: none.
	Checks func(context.Context) []Check
}

// A Check is a check about the store.
type Check struct {
	Name string `json:"name"` // what was checked, in one word
	// Status is "ok", "fault", "note", or "skipped" for a check that could not be made.
	Status string `json:"status"`
	Text   string `json:"text"`
	Do     string `json:"do,omitempty"` // the remedy
}

const answerTimeout = 10 * time.Second

// Handler returns a handler that serves the page at "/" and its data below "/api/". The format of
// the data may change. It answers only GET and HEAD, and is safe for concurrent use.
func Handler(c *admin.Client, o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return newHandler(client{c}, o)
}

type handler struct {
	source  source
	options Options
	watched *collector
	feedsOf kept[feedsAnswer]
	checks  kept[[]Check]
	// remindersOf and poolOf keep one answer for each type.
	remindersOf keptOf[reminderPage]
	poolOf      keptOf[poolAnswer]
}

func newHandler(s source, o Options) http.Handler {
	h := &handler{source: s, options: o, watched: newCollector(s, o.Cluster)}
	mux := http.NewServeMux()
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /api/cluster", h.cluster)
	mux.HandleFunc("GET /api/shards", h.shards)
	mux.HandleFunc("GET /api/entity", h.entity)
	mux.HandleFunc("GET /api/trends", h.trends)
	mux.HandleFunc("GET /api/member", h.member)
	mux.HandleFunc("GET /api/entities", h.entities)
	mux.HandleFunc("GET /api/reminders", h.reminders)
	mux.HandleFunc("GET /api/pool", h.pool)
	mux.HandleFunc("GET /api/feeds", h.feeds)
	mux.HandleFunc("GET /api/store", h.store)
	return secured(mux)
}

// secured prevents other sites from using the page.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

// cluster answers with the cluster's state, and its events numbered above the parameter "after".
func (h *handler) cluster(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	after, _ := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64) // 0: all
	if now := h.look(ctx, w); now != nil {
		view := *now
		view.Events = view.eventsAfter(after)
		h.send(w, r, view)
	}
}

func (h *handler) look(ctx context.Context, w http.ResponseWriter) *snapshot {
	now := h.watched.look(ctx)
	if now == nil {
		http.Error(w, "the cluster has not answered yet", http.StatusServiceUnavailable)
	}
	return now
}

func (h *handler) shards(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	if now := h.look(ctx, w); now != nil {
		h.send(w, r, now.mapOf(r.URL.Query().Get("type")))
	}
}

func (h *handler) entity(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	kind, id := r.URL.Query().Get("type"), r.URL.Query().Get("id")
	if kind == "" || id == "" {
		http.Error(w, "give type and id", http.StatusBadRequest)
		return
	}
	now := h.look(ctx, w)
	if now == nil {
		return
	}
	story := entityStory{Type: kind, ID: id, Events: []eventRow{}}
	place, err := h.source.Where(ctx, kind, id)
	if err != nil {
		story.Error = err.Error()
		h.send(w, r, story)
		return
	}
	story.Shard, story.Node, story.Epoch, story.Why = place.Shard, place.Node, place.Epoch, place.Why
	if !place.Since.IsZero() {
		story.Since = place.Since.UTC().Format(time.RFC3339)
	}
	e, err := h.source.Inspect(ctx, kind, id)
	story.describe(e, err)
	if err == nil && e.Turn == nil && h.options.State != nil && h.options.State(r) {
		h.options.Logger.Info("entity state shown", "kind", kind, "entity", id, "to", r.RemoteAddr)
		h.showState(ctx, &story)
	}
	for _, e := range now.Events {
		if strings.Contains(e.Attrs, id) && strings.Contains(e.Attrs, kind) {
			story.Events = append(story.Events, e)
		}
	}
	h.send(w, r, story)
}

func (h *handler) showState(ctx context.Context, story *entityStory) {
	e, err := h.source.State(ctx, story.Type, story.ID)
	switch {
	case err != nil:
		story.NoState = err.Error()
	case e.Why != "":
		story.NoState = "it cannot be read: " + e.Why
	case e.JSON == "":
		story.NoState = "it has none, or no form in JSON"
	default:
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(e.JSON), "", "  "); err != nil {
			story.NoState = "it is not JSON: " + err.Error()
			break
		}
		story.State = indented.String()
	}
}

// gzipFrom is the size in bytes from which answers are compressed.
const gzipFrom = 2 << 10

func (h *handler) send(w http.ResponseWriter, r *http.Request, v any) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		h.options.Logger.Error("dashboard answer not encoded", "err", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if b.Len() < gzipFrom || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write(b.Bytes()) // the viewer may be gone
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, err := z.Write(b.Bytes())
	if err = errors.Join(err, z.Close()); err != nil {
		h.options.Logger.Debug("dashboard viewer is gone", "err", err)
	}
}
