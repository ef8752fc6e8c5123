package dashboard

import (
	"time"

	breakers "github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/why"
	"github.com/gabion-go/gabion/policy"
)

// A breaker is what the events of one partition's breaker say.
type breaker struct {
	last   headline // its last move
	opened headline // its move out of closed, until it closes again; zero if that was not seen
	probes *fold    // the probes since then, nil before the first
}

// A fold is news that came again and again, as one line.
type fold struct {
	count int64
	since time.Duration
	last  string // code or class of the newest failure
}

func (f *fold) add(now time.Duration, n int64) {
	if f.count == 0 {
		f.since = now
	}
	f.count += n
}

// tell adds a line to what happened. What comes again and again, as an answer that asks for
// time does, only counts on the newest line.
func (t *tile) tell(h headline) {
	folded := false
	t.news.newest(func(newest *headline) bool {
		e := &newest.event
		if e.Kind != h.event.Kind || e.Partition != h.event.Partition || !repeats(e.Kind) {
			return false
		}
		if newest.fold == nil {
			newest.fold = &fold{count: 1, since: newest.at}
		}
		newest.fold.add(h.at, 1)
		h.fold = newest.fold
		*newest = h
		folded = true
		return false
	})
	if !folded {
		t.news.put(h, keptNews)
	}
}

// repeats reports whether news of a kind may come many times in a row.
func repeats(k policy.Kind) bool {
	switch k {
	case policy.KindPaceSet, policy.KindLimitMoved, policy.KindResent, policy.KindLettersLost, policy.KindEventsLost, policy.KindBreakerExceeded:
		return true
	}
	return false
}

// moved notes where a breaker went. A named partition that is closed again is forgotten. While
// a breaker probes and opens again there is one line of news.
func (t *tile) moved(h headline) {
	if t.breakers == nil {
		t.breakers = map[string]breaker{}
	}
	name, to := h.event.Partition, h.event.To
	if name != "" && to == policy.StateClosed {
		delete(t.breakers, name)
		t.tell(h)
		return
	}
	b, known := t.breakers[name]
	cycle := cycles(&h.event)
	if !known && name != "" && len(t.breakers) > keptPartitions {
		t.hidden++
		if !cycle {
			t.tell(h)
		}
		return
	}
	b.last = h
	switch {
	case cycle:
		t.probed(&b, h)
	case to == policy.StateClosed:
		b.opened, b.probes = headline{}, nil
		t.tell(h)
	default:
		if to == policy.StateOpen && h.event.From == policy.StateClosed {
			b.opened = h
		}
		b.probes = nil
		t.tell(h)
	}
	t.breakers[name] = b
}

// probed counts a move to probe, or back.
func (t *tile) probed(b *breaker, h headline) {
	if b.probes == nil {
		b.probes = new(fold)
		h.fold = b.probes
		t.tell(h)
	}
	if h.event.To != policy.StateOpen {
		return
	}
	n := int64(1)
	if h.event.Numbers != nil {
		n = max(h.event.Numbers.Failures, 1)
	}
	b.probes.add(h.at, n)
	t.news.newest(func(line *headline) bool {
		if line.fold == b.probes {
			line.at = h.at
			return false
		}
		return true
	})
}

// cycles reports whether a move is from open to probing, or back because of the probes.
func cycles(e *policy.Event) bool {
	switch e.Cause {
	case breakers.CooldownOver, breakers.CallsRefused:
		return e.To == policy.StateHalfOpen
	case breakers.ProbeFailed, breakers.ProbeExpired:
		return e.To == policy.StateOpen
	}
	return false
}

// opening is the move that the breaker's trouble began with.
func (b *breaker) opening() (h headline, known bool) {
	if b.opened.event.Kind != 0 {
		return b.opened, true
	}
	return b.last, b.last.event.Kind != 0 && !cycles(&b.last.event)
}

// text says what happened, and who did it by hand.
func (h *headline) text() string {
	text := ""
	if e := &h.event; h.fold != nil && h.fold.count > 0 && cycles(e) {
		text = plural(h.fold.count, "probe", "probes") + " failed"
	} else {
		text = why.Why(*e)
	}
	if h.event.Partition != "" {
		text += " (" + h.event.Partition + ")"
	}
	if h.fold != nil && h.fold.count > 1 && !cycles(&h.event) {
		text += ", the last of " + plural(h.fold.count, "time", "times")
	}
	return text
}
