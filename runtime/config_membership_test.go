package shard

import (
	"reflect"
	"testing"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// TestMembershipOptionsReachTheCore: each option of Membership but those that this
// package heeds itself is the core's option of the same name.
func TestMembershipOptionsReachTheCore(t *testing.T) {
	own := map[string]bool{"QuarantineAfter": true, "Downing": true}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[MembershipOptions]()) {
		if own[f.Name] {
			continue
		}
		var c Config
		option := reflect.ValueOf(&c.Membership).Elem().FieldByIndex(f.Index)
		switch option.Kind() {
		case reflect.Float64:
			option.SetFloat(0.375)
		case reflect.Uint8:
			option.SetUint(uint64(SingleObserver))
		default:
			option.SetInt(int64(97 * time.Second))
		}
		core := reflect.ValueOf(c.membershipConfig(transport.Address{}, nil, nil, nil))
		if got := core.FieldByName(f.Name); !got.IsValid() || got.Interface() != option.Interface() {
			t.Errorf("Membership.%s: the core has %v, want %v", f.Name, got, option)
		}
	}
}
