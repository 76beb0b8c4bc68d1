package durablehost

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// A Host is the process that has the shard.
type Host interface {
	// Context ends when the process ends.
	Context() context.Context
	// Go runs f on a goroutine that the process waits for, or not at all if the process has
	// ended. It may be called with a lock of this package held.
	Go(f func())
	// Event is called for each event of a tenure. It is called without a lock and must not
	// block.
	Event(t *Tenure, e durable.Event)
	// Above makes the coordinator begin again under a term higher than one, unless its term is
	// already that high. It returns the last term in the store. It may block.
	Above(term uint32) (last uint32)
	// Tell brings a tell of a shard's log to its receiver, as the command TellID. It reports
	// whether the receiver has committed it, or will never run it. It blocks until it knows,
	// or ctx ends. It is called without a lock, at most once at a time for one entity.
	Tell(ctx context.Context, from store.Shard, tell durable.Tell) (arrived bool)
}

// Config describes one shard at one process.
type Config struct {
	Shard store.Shard
	Store store.Shards
	// Node and Incarnation are the process's.
	Node        string
	Incarnation uint64
	Limits      durable.Limits
	Journal     durable.Journal
	// Records has the positions of named followers; not used without Journal.Followers.
	Records store.Store
	// Patience bounds the wait for one answer of the store. Reads of a log and writes of
	// many records may take six times as long. Default 5s.
	Patience time.Duration
	// Sweep is for types whose entities expire.
	Sweep Sweep
	Host  Host
	// Appends and Claims are those of all shards of the process. Default: of this one alone.
	Appends *Appends
	Claims  *Claims
	// Alone is not nil for a shard without a coordinator, as a singleton's.
	Alone *Alone
}

// Alone is for a shard whose epochs in the store are independent of placements: epochs of
// placements restart when all processes have ended. Each claim goes above the head that it finds.
type Alone struct {
	// May reports whether this process may have the shard at this moment. A process that has lost
	// the shard to another home claims it again if that lasts.
	May func() bool
	// Lost is called on a goroutine of its own when a tenure that had opened has ended by
	// itself.
	Lost func(error)
}

// Causes of a refused turn, or of one with an unknown end; test with errors.Is.
var (
	// ErrNotHere: the shard is not placed at this process.
	ErrNotHere = errors.New("the shard is not here")
	// ErrInDoubt: the tenure ended before the log was known to have the commit. The next
	// tenure knows: ask it with the same command.
	ErrInDoubt = errors.New("the shard was given up before its log had confirmed the commit")
	// ErrBroken: the shard cannot be claimed or recovered. It is tried again.
	ErrBroken = errors.New("the shard cannot be opened")
)

// A Shard is one shard at one process. It is safe for concurrent use.
type Shard struct {
	cfg Config

	mu      sync.Mutex
	epoch   uint64 // under which the shard was placed here last
	here    bool
	placed  bool         // here, as far as the cluster is concerned
	outgrow bool         // it needs an epoch of a later term
	attempt uint64       // of the tenures under this epoch
	known   durable.Mark // the last head that this process is known to have written
	tells   uint64       // above all numbers of tells that this process has given out for the shard
	floor   uint64       // with Config.Alone: above all epochs of the store that this process has used or met
	failed  int          // tenures that have ended in a row without opening
	tenure  *Tenure
	current atomic.Pointer[Tenure] // tenure, for those without the lock
	changed chan struct{}          // closed when the tenure, or whether there is one, changes
	broken  error                  // why the last tenure ended; nil after one has opened
	shut    shut                   // why it is not open
	again   *time.Timer            // begins the next attempt; nil means none is due
}

// New returns the shard, which is not here.
func New(c Config) *Shard {
	if c.Patience <= 0 {
		c.Patience = 5 * time.Second
	}
	c.Sweep = c.Sweep.withDefaults()
	if c.Appends == nil {
		c.Appends = &Appends{}
	}
	if c.Claims == nil {
		c.Claims = &Claims{}
	}
	return &Shard{cfg: c, changed: make(chan struct{})}
}

// The attempts under one epoch: the store's epochs have them in their lowest bits.
const (
	attemptBits = 10
	maxAttempt  = 1<<attemptBits - 1
	// counterBits of a placement's epoch are its counter, of which the store's epoch
	// leaves room for fewer.
	counterBits = 32
)

// StoreEpoch is the epoch of the store for a placement's: the term is the same, and the
// counter leaves room for the attempts of one home. It fails after four million
// placements of one shard within one term, or a thousand attempts: then the coordinator
// begins a new term.
func StoreEpoch(placed, attempt uint64) (uint64, error) {
	term, counter := placed>>counterBits, placed&(1<<counterBits-1)
	if counter >= 1<<(counterBits-attemptBits) || attempt > maxAttempt {
		return 0, fmt.Errorf("epoch %d.%d, attempt %d: too many in one term (the coordinator begins a new one)", term, counter, attempt)
	}
	return term<<counterBits | counter<<attemptBits | attempt, nil
}

// Term is the coordinator's term in an epoch of the store.
func Term(epoch uint64) uint32 { return uint32(epoch >> counterBits) }

// Open says that the shard is placed here under an epoch: it is claimed. An epoch not above a known
// one changes nothing. It may be called with a lock held.
func (s *Shard) Open(epoch uint64) {
	s.mu.Lock()
	if epoch < s.epoch || epoch == s.epoch && s.here {
		s.mu.Unlock()
		return
	}
	if epoch > s.epoch {
		s.epoch, s.attempt, s.failed, s.outgrow = epoch, 0, 0, false
	} else {
		s.attempt++ // it was given up here, and comes back under the same epoch
	}
	s.here, s.placed, s.broken = true, true, nil
	s.shut.met, s.shut.err = 0, nil
	s.shut.begin()
	s.drop(s.begin())
	s.mu.Unlock()
}

// drop ends a tenure without the callers' locks. mu is held.
func (s *Shard) drop(t *Tenure) {
	if t != nil {
		s.cfg.Host.Go(t.Drop)
	}
}

// begin begins a tenure and returns the one before, to be dropped. mu is held.
func (s *Shard) begin() (old *Tenure) {
	old = s.end()
	epoch, err := s.storeEpoch()
	if err != nil {
		s.broken, s.shut.err = err, err
		s.goAbove(Term(s.epoch) + 1)
		return old
	}
	s.tenure = newTenure(s, epoch)
	s.current.Store(s.tenure)
	return old
}

// storeEpoch is the epoch for the next tenure. mu is held.
func (s *Shard) storeEpoch() (uint64, error) {
	if s.cfg.Alone != nil {
		return max(s.floor, 1), nil
	}
	return StoreEpoch(s.epoch, s.attempt)
}

// end ends the tenure, and returns it to be dropped. mu is held.
func (s *Shard) end() (old *Tenure) {
	if s.again != nil {
		s.again.Stop()
		s.again = nil
	}
	old, s.tenure = s.tenure, nil
	if old != nil {
		var epoch uint64
		epoch, s.known, s.tells = old.fix()
		if s.cfg.Alone != nil {
			s.floor = epoch + 1
		}
	}
	s.current.Store(nil)
	close(s.changed)
	s.changed = make(chan struct{})
	return old
}

// Close gives the shard up at once. Waiting calls are answered ErrInDoubt. It may be called
// with a lock held.
func (s *Shard) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.here, s.placed, s.shut = false, false, shut{}
	s.drop(s.end())
}

// Leave gives the shard up in order: committed changes go to the log and to records, so
// that the next home recovers quickly. It gives the shard up in any case, when ctx ends at
// the latest, and returns why that was not in order. If the shard is not here under that
// epoch any more, nothing happens.
func (s *Shard) Leave(ctx context.Context, epoch uint64) error {
	s.mu.Lock()
	t, now := s.tenure, s.epoch
	s.mu.Unlock()
	if now != epoch {
		return nil
	}
	err := t.leave(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tenure == t { // else it has ended, or the shard has come back meanwhile
		s.here, s.placed, s.shut = false, false, shut{}
		s.drop(s.end())
	}
	return err
}

// Outgrown reports whether the shard cannot be opened under the epoch that it was placed here
// with, for the store has seen a later term of the coordinator. It must be placed anew.
func (s *Shard) Outgrown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outgrow
}

// staleAfter is how long a shard stays here after another home has a higher epoch within one term.
// Then the term counts as assigned twice because of a lost record. A home that is merely stale
// hears of its successor sooner.
const staleAfter = 5 * time.Second

// beyond follows the epoch that a tenure has met. One of a later term says that the coordinator has fallen
// behind. If it is its own, another process has it by a term assigned twice, or the tenure has given up
// because its log lacks a part: the next claim, above it, shows whether another home has the shard. mu is
// held.
func (s *Shard) beyond(own, met uint64) {
	switch placed := s.epoch; {
	case met == 0:
	case s.cfg.Alone != nil:
		// The head may be below that one: it was lost, and the log has its claim.
		s.floor = max(s.floor, met+1)
		s.claimLater()
	case Term(met) > Term(own):
		s.goAbove(Term(met))
	case met == own:
		s.again = time.AfterFunc(staleAfter, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.again != nil && s.placed && s.epoch == placed && !s.here && s.cfg.Host.Context().Err() == nil {
				s.here = true
				s.attempt++
				s.begin()
			}
		})
	default:
		s.again = time.AfterFunc(staleAfter, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.again != nil && s.placed && s.epoch == placed && !s.here {
				s.goAbove(Term(met) + 1)
			}
		})
	}
}

// claimLater claims a shard again that another home has had for long enough, if this process may
// have it then. mu is held.
func (s *Shard) claimLater() {
	placed := s.epoch
	s.again = time.AfterFunc(staleAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.again == nil || !s.placed || s.epoch != placed || s.here || s.cfg.Host.Context().Err() != nil:
		case s.cfg.Alone.May():
			s.here = true
			s.begin()
		default:
			s.claimLater()
		}
	})
}

// unplacedAfter is how long a shard that needs a later term waits for its new place. A coordinator
// that has a later term, and began before the shard needed one, has left the shard under its old
// epoch. Then the coordinator begins anew once more.
const unplacedAfter = 15 * time.Second

// goAbove has the coordinator place the shard anew, under a later term. mu is held.
func (s *Shard) goAbove(term uint32) {
	s.outgrow = true
	placed := s.epoch
	s.cfg.Host.Go(func() {
		last := s.cfg.Host.Above(term)
		s.mu.Lock()
		defer s.mu.Unlock()
		waits := func() bool {
			return s.placed && s.outgrow && s.epoch == placed && s.cfg.Host.Context().Err() == nil
		}
		if !waits() {
			return
		}
		s.again = time.AfterFunc(unplacedAfter, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.again != nil && waits() {
				s.goAbove(last + 1)
			}
		})
	})
}

// Current returns the tenure if it is open, or nil. It does not wait.
func (s *Shard) Current() *Tenure {
	if t := s.current.Load(); t != nil && t.isOpen() {
		return t
	}
	return nil
}

// Has reports whether t is the shard's present tenure, open or not.
func (s *Shard) Has(t *Tenure) bool { return s.current.Load() == t }

// Tenure returns the tenure once it is open. It fails with ErrNotHere, with ErrBroken and
// the reason if the shard cannot be opened at the moment, and with ctx's error and the
// store's last error.
func (s *Shard) Tenure(ctx context.Context) (*Tenure, error) {
	for {
		s.mu.Lock()
		t, here, broken, changed := s.tenure, s.here, s.broken, s.changed
		if s.failed <= patientTries && s.attempt < maxAttempt {
			broken = nil // it is tried again at once
		}
		s.mu.Unlock()
		switch {
		case !here:
			return nil, fmt.Errorf("shard %v: %w", s.cfg.Shard, ErrNotHere)
		case broken != nil && (t == nil || !t.isOpen()):
			return nil, fmt.Errorf("shard %v: %w: %w", s.cfg.Shard, ErrBroken, broken)
		case t != nil && t.isOpen():
			return t, nil
		}
		var opened <-chan struct{}
		if t != nil {
			opened = t.opened
			s.cfg.Claims.want(t)
		}
		select {
		case <-opened:
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("shard %v: %w: it is not recovered yet%s", s.cfg.Shard, ctx.Err(), t.trouble())
		}
	}
}

// Stuck reports whether the shard is placed here and has not opened for too long, and why.
func (s *Shard) Stuck(now time.Time) (st Stuck, ok bool) {
	s.mu.Lock()
	t, why, outgrow := s.tenure, s.shut, s.outgrow
	s.mu.Unlock()
	if why.since.IsZero() || now.Sub(why.since) < stuckAfter {
		return st, false
	}
	epoch := why.epoch
	if t != nil {
		epoch = t.Epoch()
	}
	return Stuck{
		For: now.Sub(why.since).Round(time.Second / 10),
		Why: why.stuck(s.cfg.Shard, epoch, outgrow, t.trouble()),
	}, true
}

// patientTries is how many tenures may end in a row before waiting callers learn why.
const patientTries = 2

// First and longest pause before a shard that could not be opened is tried again.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
)

// ended is told that a tenure has ended by itself.
func (s *Shard) ended(t *Tenure, e durable.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tenure != t {
		return
	}
	s.end()
	s.lost(t, e)
	s.shut.begin()
	s.shut.epoch, s.shut.met, s.shut.err = t.Epoch(), e.Epoch, e.Err
	if e.Err == nil { // another home has it, or will have it
		s.here = false
		s.beyond(t.Epoch(), e.Epoch)
		return
	}
	s.broken = e.Err
	if large := (*store.TooLargeError)(nil); errors.As(e.Err, &large) && large.Limit > 0 {
		s.cfg.Limits.AppendBytes = large.Limit // from now on the turn is refused that needs more
	}
	if s.attempt == maxAttempt && s.cfg.Alone == nil {
		s.broken = fmt.Errorf("%w (tried %d times)", e.Err, s.attempt)
		s.goAbove(Term(s.epoch) + 1)
		return
	}
	s.attempt++
	pause := min(firstPause<<min(s.failed, 10), longestPause)
	s.failed++
	s.again = time.AfterFunc(pause, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.again != nil && s.here && s.tenure == nil && s.cfg.Host.Context().Err() == nil {
			s.begin()
		}
	})
}

// lost tells of the end of a tenure that had opened. mu is held.
func (s *Shard) lost(t *Tenure, e durable.Event) {
	if s.cfg.Alone == nil {
		return
	}
	select {
	case <-t.opened:
	default:
		return
	}
	why := e.Err
	if why == nil {
		why = fmt.Errorf("another home has claimed it, under epoch %s", durable.EpochText(e.Epoch))
	}
	s.cfg.Host.Go(func() { s.cfg.Alone.Lost(why) })
}

// opened notes that the tenure has opened.
func (s *Shard) opened(t *Tenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tenure == t {
		s.broken, s.failed, s.shut = nil, 0, shut{}
	}
}

// stuckAfter is how long a shard may be placed here without being open before operators are told. One that
// has met another home's epoch needs staleAfter, if nothing is wrong.
const stuckAfter = 2 * staleAfter

// A Stuck is a shard that is placed at this process and has not opened for too long.
type Stuck struct {
	For time.Duration // rounded
	Why string        // with the remedy, for people
}

// A shut is the time since which a shard is placed here and not open, and the end of its last tenure.
type shut struct {
	since time.Time // zero: it is open, or not here
	epoch uint64    // of the last tenure that has ended
	met   uint64    // the epoch that ended it; 0 means none did
	err   error     // its fault; nil means none
}

// begin notes that the shard is here and not open.
func (s *shut) begin() {
	if s.since.IsZero() {
		s.since = time.Now()
	}
}

// stuck returns why a shard with a claim under that epoch is stuck; trouble is the store's last
// fault.
func (s *shut) stuck(shard store.Shard, epoch uint64, outgrow bool, trouble string) string {
	repair := fmt.Sprintf("shardctl store repair %s -shard %d: -from restores an export, -drop accepts the loss", shard.Type, shard.Number)
	under := "its claim under epoch " + durable.EpochText(epoch)
	switch {
	case s.met != 0 && outgrow:
		return fmt.Sprintf("%s met %s in the store, and the coordinator has not begun a later term (look at the log of its node)", under, durable.EpochText(s.met))
	case s.met != 0:
		return fmt.Sprintf("%s met %s in the store (if no other process has it: %s)", under, durable.EpochText(s.met), repair)
	case s.err != nil:
		return fmt.Sprintf("%s failed: %v (shardctl store verify names what cannot be read; %s)", under, s.err, repair)
	}
	return fmt.Sprintf("%s is not confirmed%s (check the store: shardctl doctor)", under, trouble)
}
