package dashboard

import (
	"slices"
	"sync"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// A story is one call with all its decisions.
type story struct {
	at     time.Duration // when it was over
	call   uint64
	how    ending
	reason policy.Reason
	code   string
	events []policy.Event
}

const (
	openStories = 1024 // calls under way whose decisions are kept; the ones after those take their places
	storyEvents = 32   // decisions of one call, and its end; those in between are left out
)

// drafts keeps the decisions of calls that are under way: only when a call is over is it
// known whether anybody will want to read them. A call takes the place of the one that began
// 1024 calls before it, so a program with more calls under way than that has some without
// a story.
type drafts [openStories]draft

type draft struct {
	mu     sync.Mutex
	call   uint64
	events []policy.Event
}

// write adds a decision to its call's draft. When the call is over and worth telling,
// t keeps its story.
func (d *drafts) write(now time.Duration, e *policy.Event, t *tile) {
	if e.Call == 0 || e.Kind > policy.KindReturned {
		return
	}
	one := &d[e.Call%openStories]
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.call != e.Call {
		if e.Kind == policy.KindReturned && e.Attempt > 0 {
			return // its beginning was not seen, or is overwritten
		}
		one.call, one.events = e.Call, one.events[:0]
	}
	if len(one.events) < storyEvents || e.Kind == policy.KindReturned {
		one.events = append(one.events, *e)
	}
	if e.Kind != policy.KindReturned {
		return
	}
	one.call = 0
	told := story{at: now, call: e.Call, how: endingOf(e), reason: e.Reason, code: e.Code, events: one.events}
	if told.interesting() {
		t.keep(told)
	}
}

// refused reports whether an attempt of a call that is under way was refused.
func (d *drafts) refused(call uint64) bool {
	one := &d[call%openStories]
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.call == call && slices.ContainsFunc(one.events, func(e policy.Event) bool { return e.Kind == policy.KindAttemptRefused })
}

// interesting reports whether the story is worth reading: it failed, was sent again or was slow.
func (s *story) interesting() bool {
	if s.how != endedFirst {
		return s.how != endedLeft
	}
	for i := range s.events {
		if s.events[i].Slow {
			return true
		}
	}
	return false
}

// keep takes a story in. Of those that ended alike there are two at most, and the newest is a
// while younger than the one before: else the last second of an outage would be all that
// there is to read.
func (t *tile) keep(s story) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var alike []int // the oldest first
	for n := range t.stories {
		if o := &t.stories[n]; s.how == o.how && s.reason == o.reason && s.code == o.code {
			alike = append(alike, n)
		}
	}
	if len(alike) > 0 && s.at-t.stories[alike[len(alike)-1]].at < storyPause {
		return
	}
	most := alikeStories
	if s.how == endedRefused {
		most = 1 // there is little to read
	}
	if len(alike) >= most {
		t.stories = slices.Delete(t.stories, alike[0], alike[0]+1)
	} else if len(t.stories) >= keptStories {
		t.stories = slices.Delete(t.stories, 0, 1)
	}
	t.stories = append(t.stories, s.copied())
}

// copied returns the story with events of its own.
func (s *story) copied() story {
	c := *s
	c.events = slices.Clone(s.events)
	for i := range c.events {
		e := &c.events[i]
		e.Dependency = "" // the tile's
		e.Partition, e.Operation, e.Code = bounded(e.Partition), bounded(e.Operation), bounded(e.Code)
	}
	return c
}
