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

// A Host is the process that hosts a shard.
type Host interface {
	// Context ends when the process ends.
	Context() context.Context
	// Go runs f on a goroutine that the process waits for. If the process has ended, it does
	// nothing. It may be called with a lock of this package held.
	Go(f func())
	// Event is called for each event of a tenure. It is called without a lock and must not
	// block.
	Event(t *Tenure, e durable.Event)
	// Above raises the last term in the store to at least the given term. A coordinator with a
	// lower term then begins a new term above it. Above returns the last term in the store. It may
	// block.
	Above(term uint32) (last uint32)
	// Tell brings stored tells of one shard to their receivers, each as the command TellID. It
	// reports each tell once to the callback (then), on any goroutine. If arrived is set, the
	// receivers of these tells have committed them, or will never run them. The callback must not
	// keep the slice. ctx ends with the tenure. Tell must not block, and must not report a tell
	// before it returns. The shard passes an entity's next tell to Tell only after the last one was
	// reported.
	Tell(ctx context.Context, from store.Shard, tells []durable.Tell, then func(tells []durable.Tell, arrived bool))
	// Look runs the due reminders of entities, if any, each in a turn of its entity. Then it calls
	// Tenure.Looked for each entity. It must not block.
	Look(t *Tenure, entities []string)
}

// Config configures one shard at one process.
type Config struct {
	Shard store.Shard
	Store store.Shards
	// Node and Incarnation identify the process.
	Node        string
	Incarnation uint64
	Limits      durable.Limits
	Journal     durable.Journal
	// Index returns the indexes of the type when a tenure begins. If Index or its result is nil,
	// the type has no indexes.
	Index func() *durable.Index
	// Records holds the records of named followers. It is used only with Journal.Followers.
	Records store.Store
	// Patience bounds the wait for one answer of the store. Reads of a log and writes of many
	// records may take six times as long. Default 5 s.
	Patience time.Duration
	// Sweep configures the deletion of records of expired or ended entities.
	Sweep Sweep
	Host  Host
	// Clock is shared by all shards of the process. Default: the clock of this process.
	Clock *Clock
	// Hold is shared by all shards of the type in the process. With nil, reminders cannot be paused.
	Hold *Hold
	// Appends and Claims are shared by all shards of the process. Default: not shared.
	Appends *Appends
	Claims  *Claims
	// Alone is set for a shard that no coordinator places, such as a singleton's; nil for others.
	Alone *Alone
}

// Alone configures a shard that chooses the epochs of its claims itself: each claim takes an epoch
// above that of the head in the store. The epochs under which the shard is placed cannot be used,
// because they start again after a full restart.
type Alone struct {
	// May reports whether this process may have the shard now. A process that has lost the shard to
	// another home claims it again after staleAfter if May allows it.
	May func() bool
	// Lost is called on a new goroutine when a tenure that had opened has ended by itself.
	Lost func(error)
}

// Causes of a refused turn, or of a turn with an unknown outcome; test with errors.Is.
var (
	// ErrNotHere means that the shard is not placed at this process.
	ErrNotHere = errors.New("the shard is not at this process")
	// ErrInDoubt means that the tenure ended before it was known whether the log has the commit.
	// The next tenure will know: send the same command again.
	ErrInDoubt = errors.New("the shard was given up before the store had acknowledged the commit (send the same command again)")
	// ErrBroken means that the shard could not be claimed or recovered. The process tries again.
	ErrBroken = errors.New("the shard cannot be opened now (it is tried again)")
)

// A Shard is one durable shard at one process, whether or not the shard is placed there. It is safe
// for concurrent use.
type Shard struct {
	cfg Config

	mu      sync.Mutex
	epoch   uint64 // the epoch under which the shard was last placed here
	here    bool
	placed  bool         // the shard is placed here, even if another home has claimed it meanwhile
	outgrow bool         // the shard needs an epoch of a later term
	attempt uint64       // number of the current tenure among those under this epoch
	known   durable.Mark // the last head that this process has certainly written
	tells   uint64       // greater than all numbers that this process has given to the shard's tells
	floor   uint64       // with Config.Alone: greater than all epochs in the store that this process has used or met
	failed  int          // number of tenures in a row that ended without opening
	tenure  *Tenure
	current atomic.Pointer[Tenure] // tenure, for goroutines without the lock
	changed chan struct{}          // closed when tenure changes
	broken  error                  // why the last tenure ended; nil after one has opened
	shut    shut                   // since when and why the shard is not open
	again   *time.Timer            // begins the next attempt; nil means that none is due
	writing writing
}

// New returns a shard that this process does not host yet. [Shard.Open] claims it.
func New(c Config) *Shard {
	if c.Patience <= 0 {
		c.Patience = 5 * time.Second
	}
	c.Sweep = c.Sweep.withDefaults()
	if c.Clock == nil {
		c.Clock = NewClock(nil)
	}
	if c.Appends == nil {
		c.Appends = &Appends{}
	}
	if c.Claims == nil {
		c.Claims = &Claims{}
	}
	return &Shard{cfg: c, changed: make(chan struct{})}
}

// The lowest attemptBits bits of a store epoch count one placement's tries to claim.
const (
	attemptBits = 10
	maxAttempt  = 1<<attemptBits - 1
	// counterBits is the bit size of the counter in a placement's epoch. The counter in a store
	// epoch is attemptBits smaller.
	counterBits = 32
)

// StoreEpoch returns the epoch under which the shard is claimed in the store. placed is the epoch
// of the shard's placement, and attempt the number of the attempt under that placement. The result
// has the term of placed, and a counter that consists of the counter of placed and of attempt.
// StoreEpoch fails after four million placements of one shard in one term, or after 1,024 attempts
// under one placement. The coordinator must then begin a new term.
func StoreEpoch(placed, attempt uint64) (uint64, error) {
	term, counter := placed>>counterBits, placed&(1<<counterBits-1)
	if counter >= 1<<(counterBits-attemptBits) || attempt > maxAttempt {
		return 0, fmt.Errorf("epoch %d.%d, attempt %d: too many in one term (the coordinator begins a new one)", term, counter, attempt)
	}
	return term<<counterBits | counter<<attemptBits | attempt, nil
}

// Term returns the coordinator's term in an epoch of the store.
func Term(epoch uint64) uint32 { return uint32(epoch >> counterBits) }

// Open claims the shard, which the coordinator has placed at this process under the given epoch. It
// does nothing if the shard was placed here before under a higher epoch, or if the shard is already
// open or being claimed under this one. The caller may hold a lock.
func (s *Shard) Open(epoch uint64) {
	s.mu.Lock()
	if epoch < s.epoch || epoch == s.epoch && s.here {
		s.mu.Unlock()
		return
	}
	if epoch > s.epoch {
		s.epoch, s.attempt, s.failed, s.outgrow = epoch, 0, 0, false
	} else {
		s.attempt++ // the shard was given up here, and is placed here again under the same epoch
	}
	s.here, s.placed, s.broken = true, true, nil
	s.shut.met, s.shut.err = 0, nil
	s.shut.begin()
	s.drop(s.begin())
	s.mu.Unlock()
}

// drop ends a tenure on a new goroutine, because the caller holds mu and perhaps other locks.
func (s *Shard) drop(t *Tenure) {
	if t != nil {
		s.cfg.Host.Go(t.Drop)
	}
}

// begin begins a tenure. It returns the former tenure, which the caller must drop. The caller holds
// mu.
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

// storeEpoch returns the epoch in the store for the next tenure. The caller holds mu.
func (s *Shard) storeEpoch() (uint64, error) {
	if s.cfg.Alone != nil {
		return max(s.floor, 1), nil
	}
	return StoreEpoch(s.epoch, s.attempt)
}

// end detaches and returns the current tenure, which the caller must drop. The caller holds mu.
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

// Close gives the shard up at once. Calls that wait for a commit get ErrInDoubt. The caller may
// hold a lock.
func (s *Shard) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.here, s.placed, s.shut = false, false, shut{}
	s.drop(s.end())
}

// Leave gives the shard up gracefully: it first writes committed changes to the log and to records,
// so that the next home recovers quickly. If ctx ends during that, Leave gives the shard up without
// the rest, and returns an error. Leave does nothing if the given epoch is not the one under which
// the shard was last placed here.
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

// Outgrown reports whether the shard cannot open under its placement's epoch, because the store has
// recorded a later term. The coordinator must then place the shard again.
func (s *Shard) Outgrown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outgrow
}

// staleAfter is how long a shard keeps its placement here after another home has claimed it under a
// higher epoch of the same term. If the placement is out of date, the coordinator corrects it
// within this time. Otherwise there were probably two coordinators with the same term.
const staleAfter = 5 * time.Second

// beyond handles the end of a tenure that another claim in the store has ended, or may have ended.
// own is the epoch of the tenure, and met the epoch of the other claim; 0 means that no other claim
// was found. If met has a later term than own, the coordinator must place the shard again. If met
// equals own, the shard is claimed again after staleAfter, which shows whether another home has it.
// The caller holds mu.
func (s *Shard) beyond(own, met uint64) {
	switch placed := s.epoch; {
	case met == 0:
	case s.cfg.Alone != nil:
		// The head may have a lower epoch: met's head was lost, and only the log has its claim.
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

// claimLater claims the shard again after staleAfter, if Config.Alone.May allows it. The caller
// holds mu.
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

// unplacedAfter is how long a shard waits to be placed under a later term that it has requested.
// After that, it requests a still later term. A coordinator that already had the requested term
// would never place the shard again.
const unplacedAfter = 15 * time.Second

// goAbove makes the coordinator place the shard under the given term or a later one. The caller
// holds mu.
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

// Current returns the tenure if it is open, and nil otherwise. It does not wait.
func (s *Shard) Current() *Tenure {
	if t := s.current.Load(); t != nil && t.isOpen() {
		return t
	}
	return nil
}

// Has reports whether t is the shard's current tenure, open or not.
func (s *Shard) Has(t *Tenure) bool { return s.current.Load() == t }

// Tenure waits until the shard's tenure is open, and returns the tenure. It fails with ErrNotHere
// if the shard is not placed here. It fails with ErrBroken and the cause if the shard cannot be
// opened for now. If ctx ends first, the error wraps ctx's error and quotes the store's last error.
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

// Stuck reports whether the shard has been placed here for stuckAfter without being open, and why.
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

// patientTries is how many tenures may fail in a row before waiting callers get the cause.
const patientTries = 2

// Bounds of the pause before a shard that failed to open is tried again.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
)

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
	if e.Err == nil { // another home has the shard, or will have it
		s.here = false
		s.beyond(t.Epoch(), e.Epoch)
		return
	}
	s.broken = e.Err
	if large := (*store.TooLargeError)(nil); errors.As(e.Err, &large) && large.Limit > 0 {
		s.cfg.Limits.AppendBytes = large.Limit // from now on, turns that need more are refused
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

// lost calls Config.Alone.Lost, if there is one, for a tenure that had opened and has ended by
// itself. The caller holds mu.
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

func (s *Shard) opened(t *Tenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tenure == t {
		s.broken, s.failed, s.shut = nil, 0, shut{}
	}
}

// stuckAfter is how long a shard may be placed here without being open before operators see it. It
// exceeds staleAfter, which can pass without a fault.
const stuckAfter = 2 * staleAfter

// A Stuck describes a shard that is placed at this process and has not opened for stuckAfter.
type Stuck struct {
	For time.Duration // rounded
	Why string        // cause and remedy, for people
}

// A shut records since when a placed shard is not open, and how its last tenure ended.
type shut struct {
	since time.Time // zero: the shard is open, or not here
	epoch uint64    // epoch of the last tenure that has ended
	met   uint64    // the epoch that ended that tenure; 0 means that none did
	err   error     // the fault that ended that tenure; nil means none
}

func (s *shut) begin() {
	if s.since.IsZero() {
		s.since = time.Now()
	}
}

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
