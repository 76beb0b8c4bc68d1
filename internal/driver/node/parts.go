package node

import (
	"context"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/driver/runner"
)

// Parts run a function for each shard of a pool whose home is this process. Part i is the shard
// with index i: see package placement. The runs of one part never overlap. If a part's shard leaves
// and comes back, the function runs again.
type Parts struct {
	driver *Driver
	run    func(ctx context.Context, part int)

	mu      sync.Mutex
	here    []bool
	running []*partRun // nil: it does not run
}

type partRun struct {
	cancel context.CancelFunc
	ended  chan struct{}

	// For an instance of a pool; guarded by Parts.mu.
	ctx    context.Context    // the context of run
	life   context.Context    // of the tasks; nil means that none was started since the last renew
	end    context.CancelFunc // ends life
	tasks  *sync.WaitGroup    // tasks since the last renew
	former *sync.WaitGroup    // tasks before the last renew, for which the new tasks wait; nil means none
	over   bool               // no task starts any more
	anew   chan struct{}      // has an element when the instance was dropped
}

// NewParts returns n parts. The context of run ends when the shard begins to move or the process ends.
func NewParts(drv *Driver, n int, run func(ctx context.Context, part int)) *Parts {
	return &Parts{driver: drv, run: run, here: make([]bool, n), running: make([]*partRun, n)}
}

// placed is called after each change of a shard's state. It does not block.
func (p *Parts) placed(part int, here bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if part >= len(p.here) || p.here[part] == here {
		return
	}
	p.here[part] = here
	if here {
		p.startLocked(part)
	} else if r := p.running[part]; r != nil {
		r.cancel()
	}
}

// startLocked starts a part, unless its last run has not ended yet or the process ends.
func (p *Parts) startLocked(part int) {
	if p.running[part] != nil || p.driver.Closed() || p.driver.Lease.Phase() >= runner.Ending {
		return
	}
	ctx, cancel := context.WithCancel(p.driver.Context)
	r := &partRun{cancel: cancel, ended: make(chan struct{}), ctx: ctx, tasks: new(sync.WaitGroup), anew: make(chan struct{}, 1)}
	p.running[part] = r
	p.driver.Group.Go(func() {
		ended := false
		defer func() { // also after runtime.Goexit
			cancel()
			p.mu.Lock()
			r.over = true
			former, tasks := r.former, r.tasks
			p.mu.Unlock()
			if former != nil {
				former.Wait()
			}
			tasks.Wait()
			close(r.ended)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.running[part] = nil
			switch {
			case !p.here[part]:
			case ended: // it was placed here again meanwhile
				p.startLocked(part)
			default:
				time.AfterFunc(time.Second, func() { p.again(part) })
			}
		}()
		p.run(ctx, part)
		ended = true
	})
}

// again restarts a part whose goroutine was ended by runtime.Goexit.
func (p *Parts) again(part int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.here[part] {
		p.startLocked(part)
	}
}

// start starts a task of a running part. The task begins after all tasks from before the last renew
// have ended. The context of the task ends with the part or at the next renew. start reports false
// if the part is ending.
func (p *Parts) start(part int, task func(ctx context.Context)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.running[part]
	if r == nil || r.over || r.ctx.Err() != nil {
		return false
	}
	if r.life == nil {
		r.life, r.end = context.WithCancel(r.ctx)
	}
	life, tasks, former := r.life, r.tasks, r.former
	tasks.Add(1)
	p.driver.Group.Go(func() {
		defer tasks.Done()
		if former != nil {
			former.Wait()
		}
		task(life)
	})
	return true
}

// renew ends the tasks of a part whose entity has lost its value.
func (p *Parts) renew(part int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.running[part]
	if r == nil || r.over {
		return
	}
	if r.life != nil {
		r.end()
		r.life, r.former, r.tasks = nil, r.tasks, new(sync.WaitGroup)
	}
	select {
	case r.anew <- struct{}{}:
	default:
	}
}

// renewed returns a channel that receives a value when a running part's entity was dropped.
func (p *Parts) renewed(part int) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[part].anew
}

// wait waits until the run of a part that is no longer placed here has ended.
func (p *Parts) wait(part int) {
	if part >= len(p.here) {
		return
	}
	p.mu.Lock()
	r := p.running[part]
	p.mu.Unlock()
	if r != nil {
		<-r.ended
	}
}
