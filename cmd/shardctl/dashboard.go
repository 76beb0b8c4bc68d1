package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/ops/verdict"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/admin/dashboard"
)

func serveDashboard(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	at, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return errors.Join(fmt.Errorf("%v is not a TCP address", listener.Addr()), listener.Close())
	}
	handler := dashboard.Handler(c, dashboard.Options{
		Cluster: o.cluster, State: func(*http.Request) bool { return o.showState }, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Checks: func(ctx context.Context) []dashboard.Check { return storeChecks(ctx, c, o) },
	})
	if at.IP.IsLoopback() {
		handler = onlyLoopback(handler)
	} else {
		fmt.Fprintf(os.Stderr, "shardctl: everybody who can reach %v sees the cluster, without authentication\n", at)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Fprintf(w, "http://%v/\n", at)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// storeChecks returns doctor's checks of JetStream.
func storeChecks(ctx context.Context, c *admin.Client, o *options) []dashboard.Check {
	s := clusterview.Look(ctx, c)
	if s.Err == nil {
		askJetStream(ctx, o, &s)
	}
	checks := []dashboard.Check{}
	for _, f := range verdict.Judge(s) {
		if f.Check != verdict.JetStreams && f.Check != verdict.Streams {
			continue
		}
		status := "note"
		switch {
		case f.Severity == operator.Fine:
			status = "ok"
		case f.Severity == operator.Skipped:
			status = "skipped"
		case f.Severity >= operator.Fault:
			status = "fault"
		}
		checks = append(checks, dashboard.Check{Name: f.Check, Status: status, Text: f.String(), Do: f.Do})
	}
	return checks
}

// onlyLoopback refuses requests whose Host is not a loopback address, against DNS rebinding.
func onlyLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, fmt.Sprintf("this page is at localhost, not at %q", host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
