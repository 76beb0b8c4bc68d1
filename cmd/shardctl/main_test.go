package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// outcome is the result of a command line.
type outcome struct {
	code           int
	stdout, stderr string
}

func shardctl(t *testing.T, env map[string]string, args string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), strings.Fields(args), func(key string) string { return env[key] }, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// check compares an outcome with the texts that it must hold.
func (o outcome) check(t *testing.T, args string, code int, stdout, stderr string) {
	t.Helper()
	if o.code != code || !strings.Contains(o.stdout, stdout) || !strings.Contains(o.stderr, stderr) {
		t.Errorf("shardctl %s: exit code %d, output %q, errors %q; want %d, %q, %q", args, o.code, o.stdout, o.stderr, code, stdout, stderr)
	}
}

// shardctlAt returns a function that runs shardctl at a server, and checks the outcome.
func shardctlAt(t *testing.T, url string) func(args string, code int, stdout, stderr string) {
	return func(args string, code int, stdout, stderr string) {
		t.Helper()
		shardctl(t, map[string]string{"NATS_URL": url}, args).check(t, args, code, stdout, stderr)
	}
}

func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"", exitUsage, "", "usage: shardctl COMMAND"},
		{"help", exitOK, "usage: shardctl COMMAND", ""},
		{"-h", exitOK, "down a member whose process has stopped", ""},
		{"dance", exitUsage, "", `unknown command "dance"`},
		{"-json members", exitUsage, "", "the command comes first, and then its flags, as in shardctl members -json ("},
		{"members -h", exitOK, "", "usage: shardctl members -cluster NAME [flags]\n"},
		{"down -h", exitOK, "", "make sure that its process\nhas stopped"},
		{"members", exitUsage, "", "say which -cluster (shardctl members -h)"},
		{"members -cluster c extra", exitUsage, "", `unexpected argument "extra"`},
		{"call Report All -cluster c", exitUsage, "", "say which entity (a singleton has the id singleton, a pool numbers and any)"},
		{"leave -cluster c", exitUsage, "", "say which node"},
		{"leave a -cluster c b", exitUsage, "", `unexpected argument "b"`},
		{"leave a -cluster c -force", exitUsage, "", "not defined: -force"},
		{"join a -cluster my.shop", exitUsage, "", `cluster name "my.shop"`},
		{"down a -cluster c -timeout -1s", exitUsage, "", "want more than 0"},
		{"members -cluster c -nats nats://127.0.0.1:1 -timeout 300ms", exitFailed, "", "is a NATS server running there?"},
		{"members -cluster c -nats http://x", exitFailed, "", `scheme "http"`},
		{"members -cluster c -name a.b", exitUsage, "", `operator name "a.b"`},
		{"permissions -h", exitOK, "", "usage: shardctl permissions ROLE"},
		{"permissions", exitUsage, "", "name a role: client, gateway, operator, reader, source, store, worker"},
		{"permissions king -cluster c", exitUsage, "", "name a role"},
		{"permissions client", exitUsage, "", "say which -cluster"},
		{"permissions client -cluster c", exitUsage, "", "say which -name"},
		{"permissions client -cluster c -name web more", exitUsage, "", `unexpected argument "more"`},
		{"permissions gateway -cluster c -name web -store s", exitUsage, "", "-store is not valid for role gateway"},
		{"permissions operator -cluster c -name web -store s", exitOK, `publish: ["sh.c.o.web.>", "$JS.API.INFO", "$JS.API.STREAM.LIST"]`, ""},
		{"permissions reader -cluster c -name bob -store s", exitOK, `subscribe: ["sh.c.r.o.bob.>", "_INBOX.bob.>"]`, ""},
		{"permissions source", exitUsage, "", "-consume is missing: name the streams"},
		{"permissions source -consume A,b.c", exitUsage, "", `"b.c" is not the name of a stream`},
		{"permissions source -consume A -store s", exitUsage, "", "-store is not valid for role source"},
		{"permissions client -cluster c -name web -consume A", exitUsage, "", "-consume is valid only for roles worker and source"},
		{"permissions source -consume A", exitOK, `publish: ["$JS.API.STREAM.INFO.A", "$JS.API.CONSUMER.CREATE.A.>", "$JS.API.CONSUMER.MSG.NEXT.A.>", "$JS.API.CONSUMER.DELETE.A.>"]`, ""},
		{"permissions worker -cluster c -store s -consume A,B", exitOK, `"$JS.API.CONSUMER.MSG.NEXT.B.>"`, ""},
		{"permissions client -cluster c -name web -store s", exitOK, `"s.k.>"`, ""},
		{"permissions store -store s", exitUsage, "", "say which -cluster"},
		{"permissions store -cluster c", exitUsage, "", "say which -store"},
		{"permissions store -cluster c -store sh", exitUsage, "", "clusters use the subjects sh.>"},
		{"permissions store -cluster c -store s", exitOK, `"$JS.API.STREAM.DELETE.*"`, ""},
		{"permissions store -cluster c -store s", exitOK, `publish: ["sh.c.o.shardctl.get.>", "s.>"`, ""},
		{"permissions store -cluster c -store s -name ann", exitOK, `subscribe: ["sh.c.r.o.ann.>", "_INBOX.>"]`, ""},
		{"permissions worker -cluster c -no-create", exitUsage, "", "valid only for role worker with a -store"},
		{"permissions worker -cluster c -store s -no-create", exitOK, `"$JS.API.STREAM.PURGE.*"]`, ""},
		{"permissions worker -cluster c -store s -publish mails.>,live.*", exitOK, `"mails.>", "live.*", "$JS.API.STREAM.NAMES"]`, ""},
		{"permissions worker -cluster c -store s -publish mails..won", exitUsage, "", "-publish mails..won: bad key"},
		{"permissions worker -cluster c -publish mails", exitUsage, "", "-publish is valid only for role worker with a -store"},
		{"permissions worker -cluster c -name a", exitUsage, "", "-name is not valid for role worker"},
		{"permissions gateway -cluster c -name any", exitUsage, "", "name the caller"},
		{"permissions worker -cluster c.d", exitUsage, "", `cluster name "c.d"`},
		{"permissions client -cluster c -name web", exitOK, `publish: ["sh.c.c.web.>"]`, ""},
		{"permissions reader -cluster c -name bob", exitOK, `publish: ["sh.c.o.bob.get.>"]`, ""},
		{"permissions gateway -cluster c -name php", exitOK, `subscribe: ["_INBOX.php.>"]`, ""},
		{"permissions worker -cluster c -store s", exitOK, `"s.>"`, ""},
		{"permissions operator -cluster c -name ann -nsc", exitOK, "nsc edit user ann", ""},
		{"permissions reader -cluster c -name bob -json", exitOK, `"sh.c.o.bob.get.>"`, ""},
		{"permissions reader -cluster c -name bob -json -nsc", exitUsage, "", "give one of them"},
		{"store export -h", exitOK, "", "usage: shardctl store export [flags] [TYPE [ID]]\n"},
		{"store verify -h", exitOK, "", "usage: shardctl store verify [flags] [TYPE]\n"},
		{"store repair -h", exitOK, "", "usage: shardctl store repair [flags] TYPE [ID]\n"},
		{"store show -h", exitOK, "", "usage: shardctl store show [flags] TYPE ID\n"},
		{"store import -h", exitOK, "", "usage: shardctl store import [flags]\n"},
		{"members -cluster c -creds /nowhere", exitFailed, "", "/nowhere"},
	} {
		shardctl(t, nil, tt.args).check(t, tt.args, tt.code, tt.stdout, tt.stderr)
	}
}

// TestCluster commands two members of a real broker.
func TestCluster(t *testing.T) {
	url := natsproc.Start(t).URL()
	watch := fixture.NewWatch()
	env := map[string]string{"NATS_URL": url, "SHARD_CLUSTER": "shop"}
	start := func(name string, command bool) *shard.Node {
		n := shard.New(shard.Config{
			Cluster: "shop", Name: name, Transport: natstransport.New(url), Membership: membership.Options{JoinByCommand: command},
			Roles: []string{"web"}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		t.Cleanup(func() { _ = n.Close() })
		if !command {
			if err := fixture.HostChief(n, func() *fixture.Chief {
				return &fixture.Chief{Node: name, Watch: watch, Self: fixture.NewChiefClient(n).API()}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	shardctl(t, env, "members").check(t, "members", exitFailed, "", "cluster shop: no process of this cluster answers (is the name right")
	a, b := start("a", false), start("b", true)
	shardctl(t, env, "join b -through a").check(t, "join b", exitOK, "b#", "")
	got := shardctl(t, env, "members")
	got.check(t, "members", exitOK, "2 members, as ", "")
	if lines := strings.Split(got.stdout, "\n"); len(lines) < 3 || !strings.HasPrefix(lines[0], "NODE  STATUS") ||
		!strings.Contains(lines[1], "up (leader)") || !strings.HasPrefix(lines[2], "b ") || !strings.Contains(lines[2], "web") {
		t.Errorf("members are printed as\n%s", got.stdout)
	}
	shardctl(t, env, "members -wide").check(t, "members -wide", exitOK, strings.TrimPrefix(a.Cluster().Self.String(), "a#"), "")
	if _, _, err := fixture.NewChiefClient(b).Ref().Next(t.Context()); err != nil { // the singleton runs
		t.Fatal(err)
	}
	got = shardctl(t, env, "members")
	got.check(t, "members", exitOK, "\nSINGLETON  RUNS AT  MAY RUN AT\nChief      a        a\n", "")
	shardctl(t, env, "where Chief").check(t, "where Chief", exitOK, "Chief runs at a\nwhy: it runs at the oldest member that hosts it and is up, of a\n", "")
	shardctl(t, env, "where Chief -json").check(t, "where Chief", exitOK, `"name": "Chief"`, "")
	var view jsonView
	got = shardctl(t, env, "members -json")
	if err := json.Unmarshal([]byte(got.stdout), &view); err != nil || len(view.Members) != 2 || view.Members[1].Name != "b" ||
		len(view.Singletons) != 1 || view.Singletons[0].Node != a.Cluster().Self.String() || view.Cluster != "shop" {
		t.Errorf("members -json: %v, %s", err, got.stdout)
	}
	shardctl(t, env, "down b").check(t, "down b", exitFailed, "", "b#")
	shardctl(t, env, "down nobody").check(t, "down nobody", exitFailed, "", "no such member")
	shardctl(t, env, "leave nobody").check(t, "leave nobody", exitFailed, "", "sees [a b]")
	shardctl(t, env, "leave b -json").check(t, "leave b -json", exitOK, `"result": "has left"`, "")
	if <-b.Done(); b.Err() != nil {
		t.Errorf("b ended with %v", b.Err())
	}
	shardctl(t, env, "down -force a").check(t, "down -force a", exitOK, "is down", "")
	if <-a.Done(); a.Err() == nil {
		t.Error("a downed node ended without an error")
	}
}
