package dashboard

import (
	"github.com/shardgen/shardgen/internal/ops/clusterview"
	"github.com/shardgen/shardgen/runtime/admin"
)

type entityStory struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Error   string `json:"error,omitempty"`
	Shard   uint32 `json:"shard"`
	Node    string `json:"node"`
	Epoch   string `json:"epoch"`
	Since   string `json:"since,omitempty"` // when the shard got this home, if known
	Why     string `json:"why"`
	Active  bool   `json:"active"`
	Mailbox uint32 `json:"mailbox"` // calls that wait for its turn
	Bytes   uint64 `json:"bytes"`   // of its encoded state
	// Runs is the turn under way.
	Runs    *clusterview.RunningTurn `json:"runs,omitempty"`
	State   string                   `json:"state,omitempty"`    // indented JSON
	NoState string                   `json:"no_state,omitempty"` // why it is not shown
	Stored  bool                     `json:"stored"`             // durable and passivated
	Errors  []failureRow             `json:"errors"`             // its last failed calls, the latest first
	Events  []eventRow               `json:"events"`
}

type failureRow struct {
	Method  string  `json:"method"`
	Outcome string  `json:"outcome"`
	Ago     float64 `json:"seconds_ago"`
}

func (s *entityStory) describe(e admin.Entity, err error) {
	s.Active, s.Mailbox, s.Bytes, s.Stored, s.Errors = e.Active, e.Mailbox, e.Bytes, e.Stored, []failureRow{}
	for _, f := range e.Errors {
		s.Errors = append(s.Errors, failureRow{f.Method, f.Outcome, f.Ago.Seconds()})
	}
	switch {
	case err != nil:
		s.NoState = err.Error()
	case e.Turn != nil:
		s.Runs = &clusterview.RunningTurn{
			Type: s.Type, ID: s.ID, Method: e.Turn.Method, From: e.Turn.From, Node: e.Node.Name, Seconds: e.Turn.For.Seconds(),
		}
		s.NoState = "it is shown when no turn is under way"
	case e.Why != "":
		s.NoState = "it cannot be read: " + e.Why
	}
}
