package load

import (
	"go/types"
	"reflect"
	"slices"
	"strings"
)

// isNothing reports whether values of t take no memory, such as noCopy or [0]func().
func isNothing(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Array:
		return u.Len() == 0 || isNothing(u.Elem())
	case *types.Struct:
		for f := range u.Fields() {
			if !isNothing(f.Type()) {
				return false
			}
		}
		return true
	}
	return false
}

// tools are other packages' types that hold no entity's data; "*" means all of a package. Other
// types with unexported fields may hold data, like atomic.Int64 and bytes.Buffer.
var tools = map[string]string{
	"context":      "Context",
	"database/sql": "DB Conn Stmt",
	"log":          "Logger",
	"log/slog":     "Logger Handler",
	"net":          "Dialer Resolver Listener",
	"net/http":     "Client Server Transport RoundTripper Handler",
	"sync":         "Mutex RWMutex WaitGroup Once Cond Pool Locker",
	"time":         "Timer Ticker",

	"golang.org/x/sync/errgroup":     "Group",
	"golang.org/x/sync/semaphore":    "Weighted",
	"golang.org/x/sync/singleflight": "Group",

	"github.com/go-logr/logr":    "Logger",
	"github.com/rs/zerolog":      "Logger",
	"github.com/sirupsen/logrus": "Logger Entry FieldLogger",
	"go.uber.org/zap":            "Logger SugaredLogger",

	"github.com/prometheus/client_golang/prometheus": "*",
	"go.opentelemetry.io/otel/metric":                "*",
	"go.opentelemetry.io/otel/trace":                 "Tracer TracerProvider",

	"github.com/jackc/pgx/v5":                "Conn",
	"github.com/jackc/pgx/v5/pgxpool":        "Pool",
	"github.com/nats-io/nats.go":             "Conn JetStreamContext",
	"github.com/nats-io/nats.go/jetstream":   "JetStream Stream KeyValue ObjectStore",
	"github.com/redis/go-redis/v9":           "Client ClusterClient UniversalClient Cmdable",
	"go.mongodb.org/mongo-driver/mongo":      "Client Database Collection",
	"go.mongodb.org/mongo-driver/v2/mongo":   "Client Database Collection",
	"google.golang.org/grpc":                 "ClientConn ClientConnInterface",
	"github.com/shardgen/shardgen/runtime":   "Node Conn",
	"github.com/shardgen/shardgen/transport": "*",
}

// isTool reports whether the entity's factory should make t: a channel, a function, one of [tools],
// or a client of shardgen or gRPC.
func isTool(t types.Type) bool {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	switch u := t.Underlying().(type) {
	case *types.Chan, *types.Signature:
		return true
	case *types.Interface:
		if callsRemotely(u) {
			return true
		}
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return false
	}
	name, pkg := named.Obj().Name(), named.Obj().Pkg()
	list := tools[pkg.Path()]
	if list == "*" || slices.Contains(strings.Fields(list), name) {
		return true
	}
	if entity, ok := strings.CutSuffix(name, "API"); ok { // the interface of its references
		client, _ := pkg.Scope().Lookup(entity + "Client").(*types.TypeName)
		return client != nil && isReference(client.Type())
	}
	return isReference(t)
}

// callsRemotely recognizes gRPC clients: all their methods take call options.
func callsRemotely(u *types.Interface) bool {
	for m := range u.Methods() {
		params := m.Signature().Params()
		if !m.Signature().Variadic() || !isNamed(params.At(params.Len()-1).Type().(*types.Slice).Elem(), "google.golang.org/grpc", "CallOption") {
			return false
		}
	}
	return u.NumMethods() > 0
}

// taggedInside finds the first field tagged id or state in struct t, in the struct to which t
// points, or in structs inside. path is "" if there is none.
func taggedInside(t types.Type) (path, tag string) {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	u, ok := t.Underlying().(*types.Struct)
	if !ok {
		return "", ""
	}
	for i := range u.NumFields() {
		f := u.Field(i)
		if tag := reflect.StructTag(u.Tag(i)).Get("shard"); tag == "id" || tag == "state" {
			return f.Name(), tag
		}
		if _, isStruct := f.Type().Underlying().(*types.Struct); !isStruct {
			continue
		}
		if path, tag := taggedInside(f.Type()); path != "" {
			return f.Name() + "." + path, tag
		}
	}
	return "", ""
}
