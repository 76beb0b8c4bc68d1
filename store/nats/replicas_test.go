package natsstore_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store/membertable"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// replicas answers requests for the streams of a store while the table's stream grows. Each answer
// comes from a replica that may lag.
type replicas struct {
	t      *testing.T
	random *rand.Rand
	log    []entry // of the table's stream; the first has sequence 1
	head   int     // how much of the log the leader has
}

const markSubject = "f.m.test.mark"

type entry struct{ subject, data string }

// A message is the last message of a subject in some state.
type message struct {
	entry
	seq int
}

// at returns the messages that a replica has in a state: the last message of each subject, by
// sequence.
func (r *replicas) at(state int) (found []message) {
	for i, e := range r.log[:state] {
		if !slices.ContainsFunc(r.log[i+1:state], func(later entry) bool { return later.subject == e.subject }) {
			found = append(found, message{e, i + 1})
		}
	}
	return found
}

func (r *replicas) answer(nc *nats.Conn, m *nats.Msg) {
	reply := func(header nats.Header, data []byte) {
		if err := nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: header, Data: data}); err != nil {
			r.t.Error(err)
		}
	}
	stream := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	if strings.Contains(m.Subject, "STREAM.INFO") {
		data, _ := json.Marshal(map[string]any{
			"config": jetstream.StreamConfig{
				Name: stream, Subjects: []string{"f.k.>", "f.l.>", "f.m.test.>"}, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1,
				AllowMsgTTL: true, AllowDirect: true, Metadata: map[string]string{"shardgen.format": "1"},
			},
			"state": map[string]any{"messages": 1, "last_seq": r.head},
		})
		reply(nil, data)
		return
	}
	var request struct {
		Seq       int      `json:"seq"`
		MultiLast []string `json:"multi_last"`
	}
	if err := json.Unmarshal(m.Data, &request); err != nil {
		r.t.Error(err)
	}
	if !strings.HasSuffix(stream, "_members") {
		reply(nats.Header{"Status": {"404"}}, nil)
		return
	}
	if len(request.MultiLast) > 0 && request.MultiLast[0] == "f.m.test.>" && len(r.log)%2 == 0 {
		reply(nats.Header{"Status": {"413"}}, nil)
		return
	}
	r.head = min(r.head+r.random.IntN(2), len(r.log))
	state := max(1, r.head-r.random.IntN(4))
	if last := r.log[state-1]; last.data == "" && last.subject != markSubject {
		state++ // the batch of a deletion is applied as a whole
	}
	matches := func(e message) bool {
		return e.seq >= request.Seq && (len(request.MultiLast) == 0 || slices.ContainsFunc(request.MultiLast, func(filter string) bool {
			prefix, wild := strings.CutSuffix(filter, ">")
			return filter == e.subject || wild && strings.HasPrefix(e.subject, prefix)
		}))
	}
	found := slices.DeleteFunc(r.at(state), func(m message) bool { return !matches(m) })
	if len(found) == 0 && len(request.MultiLast) == 0 {
		reply(nats.Header{"Status": {"404"}}, nil)
		return
	}
	pending := 0
	if most := 1 + r.random.IntN(8); len(request.MultiLast) > 0 && len(found) > most {
		found, pending = found[:most], len(found)-most
	}
	for _, m := range found {
		reply(nats.Header{"Nats-Subject": {m.subject}, "Nats-Sequence": {fmt.Sprint(m.seq)}}, []byte(m.data))
	}
	end := nats.Header{"Status": {"204"}, "Nats-Num-Pending": {fmt.Sprint(pending)}}
	if len(request.MultiLast) > 0 {
		end.Set("Nats-UpTo-Sequence", fmt.Sprint(state))
	}
	reply(end, nil)
}

// TestMembersOfReplicas: whichever replicas answer the requests of one read, in whichever states
// they are, the read is the table as it was at its version.
func TestMembersOfReplicas(t *testing.T) {
	t.Parallel()
	s := natsproc.Start(t)
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 0))
		r := &replicas{t: t, random: random, log: []entry{{subject: markSubject}}, head: 1}
		for i := range 120 + int(seed) {
			row := membertable.Row{ID: membertable.ID{Name: "m", Incarnation: random.Uint64N(12)}, Status: membertable.Status(fmt.Sprint(i))}
			data, err := membertable.Encode(row)
			if err != nil {
				t.Fatal(err)
			}
			if random.IntN(8) == 0 { // a deletion
				data = nil
			}
			r.log = append(r.log, entry{fmt.Sprintf("f.m.test.%d.m.%016x", row.Incarnation, row.Incarnation), string(data)})
			if data == nil {
				r.log = append(r.log, entry{subject: markSubject})
			}
		}
		server, err := nats.Connect(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Subscribe("$JS.API.>", func(m *nats.Msg) { r.answer(server, m) }); err != nil {
			t.Fatal(err)
		}
		if err := server.Flush(); err != nil {
			t.Fatal(err)
		}
		table := open(t, s.URL(), natsstore.Config{Name: "f"}).Members("test")
		var known membertable.Snapshot
		for i := range 12 {
			since := known.Version
			if i%3 == 0 {
				since = 0
			}
			got, err := table.Read(t.Context(), since)
			if err != nil {
				t.Fatal(err)
			}
			known = got.Over(known)
			var have, want []string
			for _, row := range known.Rows {
				have = append(have, fmt.Sprint(row.ID, row.Status, row.Version))
			}
			for _, m := range r.at(int(known.Version)) {
				if row, err := membertable.Decode([]byte(m.data)); err == nil {
					want = append(want, fmt.Sprint(row.ID, row.Status, m.seq))
				}
			}
			if slices.Sort(want); !slices.Equal(have, want) {
				t.Fatalf("seed %d, read %d since %d, at version %d: got\n%v, want\n%v", seed, i, since, known.Version, have, want)
			}
		}
		server.Close()
	}
}
