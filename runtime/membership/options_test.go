package membership

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store/membertable"
)

// TestOptionsReachTheCore: each option sets the core's setting of the same name, except options
// that other packages use.
func TestOptionsReachTheCore(t *testing.T) {
	others := map[string]bool{
		"QuarantineAfter": true, "JoinByCommand": true, "LeaveDelay": true, "LeaveTimeout": true, "MinRoleMembers": true, "Downing": true, "Table": true,
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
		if others[f.Name] {
			continue
		}
		var o Options
		option := reflect.ValueOf(&o).Elem().FieldByIndex(f.Index)
		switch option.Kind() {
		case reflect.Float64:
			option.SetFloat(0.375)
		case reflect.Uint8:
			option.SetUint(uint64(DetectionSingleObserver))
		default:
			option.SetInt(int64(97 * time.Second))
		}
		var c Config
		o.Configure(&c)
		if got := reflect.ValueOf(c).FieldByName(f.Name); !got.IsValid() || got.Interface() != option.Interface() {
			t.Errorf("Options.%s: the core has %v, want %v", f.Name, got, option)
		}
	}
}

// TestTableOptionsReachTheCore: each option of a table sets the core's setting of the same name.
func TestTableOptionsReachTheCore(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[TableOptions]()) {
		if f.Name == "Store" {
			continue
		}
		o := Options{QuorumTimeout: 5 * time.Second, Table: TableOptions{Store: noTable{}}}
		option := reflect.ValueOf(&o.Table).Elem().FieldByIndex(f.Index)
		option.SetInt(int64(97 * time.Second))
		c := Config{ProbeVacancy: true, Founding: true}
		o.Configure(&c)
		if !c.Table.Enabled || c.ProbeVacancy || c.Founding {
			t.Errorf("the core does not use the table: %+v", c.Table)
		}
		if got := reflect.ValueOf(c.Table).FieldByName(f.Name); !got.IsValid() || got.Interface() != option.Interface() {
			t.Errorf("TableOptions.%s: the core has %v, want %v", f.Name, got, option)
		}
	}
}

type noTable struct{}

func (noTable) Members(string) membertable.Table { return nil }

// TestTableOptionsAreChecked: the error names bad settings of a table. It also names settings of
// gossip beside a table, and settings of a table without a store.
func TestTableOptionsAreChecked(t *testing.T) {
	with := func(change func(*Options)) Options {
		o := Options{Table: TableOptions{Store: noTable{}}}
		change(&o)
		return o
	}
	for _, c := range []struct {
		options Options
		want    string // "" means valid
	}{
		{with(func(*Options) {}), ""},
		{with(func(o *Options) { o.MinMembers, o.GoneAfter, o.QuarantineAfter = 3, 2*time.Second, time.Minute }), ""},
		{with(func(o *Options) { o.Table.Votes = -1 }), "Table.Votes is -1: want at least 1"},
		{with(func(o *Options) { o.Table.ProbeInterval = time.Millisecond }), "Table.ProbeInterval is 1ms: want at least 100ms"},
		{with(func(o *Options) { o.Table.CleanAfter = time.Minute - 1 }), "Table.CleanAfter is 59.999999999s: want at least twice JoinTimeout (30s)"},
		{with(func(o *Options) { o.Table.AliveInterval = 21 * time.Minute }), "Table.Outage is 1h0m0s: want at least AliveLimit (3) times AliveInterval (21m0s)"},
		{with(func(o *Options) { o.SelfHeartbeatTimeout, o.GoneAfter = 5*time.Second, 5*time.Second }), "QuorumTimeout is 5s: want more than SelfHeartbeatTimeout (5s)"},
		{with(func(o *Options) { o.GossipInterval = time.Second }), "GossipInterval is set, and Table.Store too"},
		{with(func(o *Options) { o.SeedTimeout = 2 * time.Second }), "SeedTimeout is set, and Table.Store too"},
		{with(func(o *Options) { o.PhiThreshold = 12 }), "PhiThreshold is set, and Table.Store too"},
		{with(func(o *Options) { o.SilentAfter = time.Minute }), "SilentAfter is set, and Table.Store too"},
		{with(func(o *Options) { o.Downing.Strategy = DowningManual }), "Downing is set, and Table.Store too"},
		{Options{Table: TableOptions{Votes: 3}}, "Membership.Table has settings, and Table.Store is nil"},
	} {
		err := c.options.WithDefaults().Validate(true)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.options, err, c.want)
		}
	}
}
