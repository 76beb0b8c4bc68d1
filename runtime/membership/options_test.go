package membership

import (
	"reflect"
	"testing"
	"time"
)

// TestOptionsReachTheCore: each option but those that others heed is the core's setting of the same
// name.
func TestOptionsReachTheCore(t *testing.T) {
	others := map[string]bool{
		"QuarantineAfter": true, "JoinByCommand": true, "LeaveDelay": true, "LeaveTimeout": true, "MinRoleMembers": true, "Downing": true,
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
