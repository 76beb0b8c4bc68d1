package clusterview

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/ops/verdict"
	"github.com/shardgen/shardgen/runtime/admin"
)

// A Health is the verdict on a cluster as operators read it, in text and JSON. Later versions may
// add fields, but never change the meaning of one.
type Health struct {
	Cluster  string    `json:"cluster"`
	Healthy  bool      `json:"healthy"`
	Members  int       `json:"members"`
	Types    int       `json:"types"`
	Shards   int       `json:"shards"`
	Moving   int       `json:"moving"`
	Wrong    []string  `json:"wrong"` // the findings that are faults
	Notes    []string  `json:"notes"` // conditions that pass by themselves
	Findings []Finding `json:"findings"`
}

// A Finding is one finding of a Health.
type Finding struct {
	Check    string    `json:"check"`
	Node     string    `json:"node,omitempty"` // the process that the finding is about
	Severity string    `json:"severity"`       // note, passing, fault, unready, dead
	Since    time.Time `json:"since,omitzero"`
	Text     string    `json:"text"`
	Do       string    `json:"do,omitempty"` // the remedy
}

// A Source answers questions about a cluster; an [admin.Client] is one.
type Source interface {
	Members(ctx context.Context) (admin.View, error)
	Shards(ctx context.Context, kind string) ([]admin.NodeShards, error)
	Facts(ctx context.Context) ([]admin.NodeFact, error)
}

// Look asks a cluster for the snapshot that [verdict.Judge] judges.
func Look(ctx context.Context, c Source) verdict.Snapshot {
	var (
		asking                      sync.WaitGroup
		view                        admin.View
		shards                      []admin.NodeShards
		facts                       []admin.NodeFact
		viewErr, shardErr, factsErr error
	)
	asking.Go(func() { view, viewErr = c.Members(ctx) })
	asking.Go(func() { shards, shardErr = c.Shards(ctx, "") })
	asking.Go(func() { facts, factsErr = c.Facts(ctx) })
	asking.Wait()
	return Snapshot(view, shards, facts, errors.Join(viewErr, shardErr, factsErr))
}

// Snapshot combines what a cluster has answered. err is why the cluster has not answered.
func Snapshot(v admin.View, shards []admin.NodeShards, facts []admin.NodeFact, err error) verdict.Snapshot {
	s := verdict.Snapshot{Now: time.Now(), View: v, Err: err}
	for _, n := range shards {
		s.Answers = append(s.Answers, verdict.Answer{Node: n.Node, Types: n.Types, Err: n.Err})
	}
	for _, f := range facts {
		i := 0
		for i < len(s.Answers) && s.Answers[i].Node != f.Node {
			i++
		}
		if i == len(s.Answers) {
			s.Answers = append(s.Answers, verdict.Answer{Node: f.Node})
		}
		a := &s.Answers[i]
		if a.Asked, a.Answered = f.Asked, f.Answered; f.Err != nil {
			a.Err = f.Err
			continue
		}
		a.Fact = &f.Fact
	}
	return s
}

// Judge returns the health of a cluster according to the snapshot s.
func Judge(cluster string, s verdict.Snapshot) Health {
	h := Health{Cluster: cluster, Members: len(s.View.Members), Wrong: []string{}, Notes: []string{}, Findings: []Finding{}}
	types := map[string]int{}
	for _, a := range s.Answers {
		for _, t := range a.Types {
			types[t.Kind] = max(types[t.Kind], int(t.Shards))
		}
	}
	h.Types, h.Moving = len(types), verdict.Moving(s.Answers)
	for _, n := range types { //arch:order-free they are added
		h.Shards += n
	}
	found := verdict.Judge(s)
	h.Healthy = verdict.Worst(found) < operator.Fault
	for _, f := range found {
		switch {
		case f.Severity >= operator.Fault:
			h.Wrong = append(h.Wrong, f.Sentence())
		case f.Severity >= operator.Note:
			h.Notes = append(h.Notes, f.Sentence())
		default:
			continue
		}
		h.Findings = append(h.Findings, Finding{f.Check, f.Node, f.Severity.String(), f.Since, f.Text, f.Do})
	}
	return h
}
