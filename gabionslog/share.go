package gabionslog

import (
	"sync/atomic"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// calls counts those of a dependency while some of them fail, to tell whether most do. Its fields only
// grow.
type calls struct {
	succeeded atomic.Int64
	failing   atomic.Int64 // because of the dependency
	others    atomic.Int64 // mistakes, and answers that say no
	bursts    int          // that need it; guarded by Observer.mu
}

// share is what calls counted in an interval.
type share struct{ succeeded, failing, others int64 }

func (c *calls) now() share {
	if c == nil {
		return share{}
	}
	return share{c.succeeded.Load(), c.failing.Load(), c.others.Load()}
}

func (s share) since(before share) share {
	return share{s.succeeded - before.succeeded, s.failing - before.failing, s.others - before.others}
}

// most reports whether most calls failed because of the dependency.
func (s share) most() bool { return s.failing > s.succeeded+s.others }

// note counts a call that did not succeed.
func (c *calls) note(e *gabion.Event) {
	switch {
	case c == nil:
	case e.Reason != policy.RateLimited && e.Reason.Unavailable(), e.Reason == policy.UnclassifiedError, e.Reason == policy.WorkCrashed:
		c.failing.Add(1)
	default:
		c.others.Add(1)
	}
}

// succeeded counts a call that succeeded. While no call of any dependency fails it costs
// a look at one word.
func (o *Observer) succeeded(dependency string) {
	if o.failing.Load() == 0 {
		return
	}
	o.mu.RLock()
	c := o.calls[dependency]
	o.mu.RUnlock()
	if c != nil {
		c.succeeded.Add(1)
	}
}

// watch has the calls of a burst's dependency counted from now on. The caller holds o.mu.
func (o *Observer) watch(s subject, e *gabion.Event) *calls {
	if s.kind != policy.KindReturned || s.dependency != e.Dependency {
		return nil // the successes of those that share a name are unknown
	}
	c := o.calls[s.dependency]
	if c == nil {
		if o.calls == nil {
			o.calls = map[string]*calls{}
		}
		c = new(calls)
		o.calls[s.dependency] = c
		o.failing.Store(int32(len(o.calls)))
	}
	c.bursts++
	return c
}

// unwatch ends that for one burst. The caller holds o.mu.
func (o *Observer) unwatch(s subject, c *calls) {
	if c == nil {
		return
	}
	if c.bursts--; c.bursts == 0 {
		delete(o.calls, s.dependency)
		o.failing.Store(int32(len(o.calls)))
	}
}
