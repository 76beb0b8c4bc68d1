package control

import (
	"fmt"
	"sync"
	"time"
)

// reasonLife is how long a coordinator's reason holds. While calls wait, the coordinator is asked
// every half second.
const reasonLife = 3 * time.Second

// Reasons holds the reasons why shards of types have no home, as other processes have reported
// them. It is safe for concurrent use.
type Reasons struct {
	mu   sync.Mutex
	kind map[string]reasonSaid

	expired time.Time // when Expire last dropped reasons
}

const (
	// maxReasons bounds the types that have a reason. With up to keptReasons types, Expire drops no
	// reason.
	maxReasons  = 4096
	keptReasons = 64
)

type reasonSaid struct {
	text        string
	first, last time.Time // when the reason was first and last given
}

// Note records the reason why a type has no home. now is the present time. "" means that there is
// no reason.
func (r *Reasons) Note(kind, text string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kind == nil || len(r.kind) > maxReasons { // clients may send any names
		r.kind = map[string]reasonSaid{}
	}
	said := r.kind[kind]
	if said.text != text || now.Sub(said.last) > reasonLife {
		said = reasonSaid{text: text, first: now}
	}
	said.last = now
	r.kind[kind] = said
}

// Expire drops reasons that no longer hold, if there are more than keptReasons, because clients may
// ask for types of any name. It is called every few seconds.
func (r *Reasons) Expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kind) <= keptReasons || now.Sub(r.expired) < reasonLife {
		return
	}
	r.expired = now
	left := map[string]reasonSaid{}  // a map keeps the memory of its largest size
	for kind, said := range r.kind { //arch:order-free each is kept by itself
		if now.Sub(said.last) <= reasonLife {
			left[kind] = said
		}
	}
	r.kind = left
}

// Clear drops all reasons.
func (r *Reasons) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kind = nil
}

// Said returns the text of a type's last reason, followed, if it still holds, by how long it has
// held.
func (r *Reasons) Said(kind string, now time.Time) string {
	if why := r.Lately(kind, now); why != "" {
		return why
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kind[kind].text
}

// Lately returns the text of a type's last reason, followed by how long it has held; "" if the
// reason no longer holds.
func (r *Reasons) Lately(kind string, now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.kind[kind]
	if said.text == "" || now.Sub(said.last) > reasonLife {
		return ""
	}
	return said.text + ForSome(now.Sub(said.first))
}

// ForSome returns a duration in the form " (for 4.2s)", and "" below 0.1 s.
func ForSome(d time.Duration) string {
	if d < 100*time.Millisecond {
		return ""
	}
	return fmt.Sprintf(" (for %v)", d.Round(100*time.Millisecond))
}
