package main

import (
	"runtime"
	"strconv"
)

// Numbers of entities, and of tells under way.
const (
	many         = 10_000
	someTold     = 256 // few enough to ask each at the end
	idleEntities = 100_000
	localWindow  = 512 // below the bound of a mailbox, 1,000
	remoteWindow = 8192
)

// groups returns the groups of the table, in its order.
func groups() []group {
	senders := runtime.GOMAXPROCS(0)
	frameworks := []string{"protoactor"}
	remotely := []string{"protoactor", "grpc"}
	byHand := []string{"nats.Request", "NATS batched", "TCP batched"}
	over := []string{"shardgen", "direct"}
	busy := func(bytes int, title string) group {
		return group{
			"busy-" + strconv.Itoa(bytes),
			cell{kind: "remote", entities: many, run: echoes, callers: maxWorkers, bytes: bytes},
			over, byHand, remotely,
			[]row{{"remote, 256 callers, " + title, "/s", perSecond, false}, {"its p99", "µs", p99, true}},
		}
	}
	return []group{
		{
			"lone",
			cell{kind: "remote", entities: many, run: echoes, callers: 1, bytes: 64},
			over, byHand, remotely,
			[]row{{"lone remote call, 64 B, p50", "µs", p50, true}, {"its p99", "µs", p99, true}},
		},
		busy(64, "64 B"), busy(1024, "1 KiB"),
		{
			"one-way",
			cell{kind: "remote", entities: someTold, run: tells, callers: senders, bytes: 64, window: remoteWindow},
			over,
			[]string{"Publish", "NATS batched", "TCP batched"},
			frameworks,
			[]row{{"one-way remote, 64 B", "/s", perSecond, false}},
		},
		{
			"tell-1",
			cell{kind: "local", entities: 1, run: tells, callers: 1, window: localWindow},
			[]string{"shardgen"},
			[]string{"channel"},
			frameworks,
			[]row{{"local tell, one sender to one entity", "/s", perSecond, false}},
		},
		{
			"tell-10000",
			cell{kind: "local", entities: many, run: tells, callers: 2, window: localWindow},
			[]string{"shardgen"},
			[]string{"channel"},
			frameworks,
			[]row{{"local tell, 2 senders to 10,000 entities", "/s", perSecond, false}},
		},
		{
			"ask-1",
			cell{kind: "local", entities: 1, run: adds, callers: 1},
			[]string{"shardgen", "by id each time"},
			[]string{"mutex"},
			frameworks,
			[]row{{"local ask, one id", "ns", nanos, true}},
		},
		{
			"cluster",
			cell{kind: "cluster", callers: 64},
			over, nil, frameworks,
			[]row{{"fresh ids over three members, 64 callers", "/s", perSecond, false}, {"a cluster of three forms", "ms", value, true}},
		},
		{
			"idle",
			cell{kind: "idle", entities: idleEntities},
			[]string{"shardgen", "with references"},
			[]string{"channel"},
			frameworks,
			[]row{{"memory of an idle entity", "B", value, true}},
		},
		{
			"measured-1",
			cell{kind: "local", entities: 1, run: adds, callers: 1},
			[]string{"metrics on"},
			[]string{"metrics off"},
			nil,
			[]row{{"local ask, one id", "ns", nanos, true}},
		},
		{
			"measured-lone",
			cell{kind: "remote", entities: many, run: echoes, callers: 1, bytes: 64},
			[]string{"metrics on"},
			[]string{"metrics off"},
			nil,
			[]row{{"lone remote call, 64 B, p50", "µs", p50, true}},
		},
		{
			"measured-64",
			cell{kind: "remote", entities: many, run: echoes, callers: maxWorkers, bytes: 64},
			[]string{"metrics on"},
			[]string{"metrics off"},
			nil,
			[]row{{"remote, 256 callers, 64 B", "/s", perSecond, false}},
		},
		{
			"read-1",
			cell{kind: "local", entities: 1, run: adds, callers: 1},
			[]string{"durable read"},
			[]string{"volatile"},
			nil,
			[]row{{"local ask, one id", "ns", nanos, true}},
		},
		{
			"durable-1",
			cell{kind: "local", entities: many, run: timedAdds, callers: 1},
			[]string{"durable"},
			[]string{"JetStream publish"},
			nil,
			[]row{{"lone local ask, p50", "µs", p50, true}},
		},
		{
			"durable-256",
			cell{kind: "local", entities: many, run: timedAdds, callers: maxWorkers},
			[]string{"durable"},
			[]string{"JetStream publish"},
			nil,
			[]row{{"local asks, 256 callers", "/s", perSecond, false}, {"its p99", "µs", p99, true}},
		},
	}
}
