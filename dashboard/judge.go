package dashboard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/why"
	"github.com/gabion-go/gabion/policy"
)

// The tones of a tile, the worst first.
const (
	toneTrouble = "trouble" // calls are refused, or most fail
	toneWarning = "warning" // some calls are
	toneHand    = "hand"    // somebody overrides it
	toneQuiet   = "quiet"   // nothing to say
	toneGood    = "good"    // it was in trouble just now, and is not any more
)

var worse = map[string]int{toneTrouble: 4, toneWarning: 3, toneHand: 2, toneGood: 1, toneQuiet: 0}

const recently = 2 * time.Minute

// judge says what state the dependency is in, and why. The caller holds t.mu.
func (t *tile) judge(r *row, v *view) {
	r.Tone = toneQuiet
	t.breaker(r, v)
	t.switches(r, v)
	t.refusing(r, v)
	t.failing(r)
	t.deciding(r)
	if len(r.Notes) > 0 {
		slices.SortStableFunc(r.Notes, func(a, b note) int { return worse[b.Tone] - worse[a.Tone] })
		r.Tone = r.Notes[0].Tone
	}
	t.calm = r.Tone == toneQuiet
}

func (r *row) add(n note) { r.Notes = append(r.Notes, n) }

// breaker says what the breaker does and why.
func (t *tile) breaker(r *row, v *view) {
	if !t.vitals.known {
		t.told(r, v)
		return
	}
	lead := t.vitals.lead()
	switch {
	case !t.seen && r.Calls == 0 && lead.Breaker.State == policy.StateClosed && lead.Breaker.Counts.Calls == 0:
		r.State = "never_called"
		r.add(note{Text: "never called yet", Tone: toneQuiet})
		return
	case t.vitals.unguarded:
		r.State = "no_breaker"
		return
	}
	r.State = lead.Breaker.State.String()
	h, known := t.breakers[bounded(lead.Name)]
	if known && h.event.To != lead.Breaker.State {
		known = false
	}
	t.stateNote(r, v, lead, h, known)
}

// told is breaker for a dependency that is known by its events alone.
func (t *tile) told(r *row, v *view) {
	r.State = "watched"
	var lead policy.PartitionStats
	var h headline
	found := false
	for name, one := range t.breakers {
		to := one.event.To % numStates
		if !found || severity[to] > severity[lead.Breaker.State] {
			lead.Name, lead.Breaker.State, h, found = name, to, one, true
		}
		if name != "" && to != policy.StateClosed {
			r.Troubled++
		}
	}
	lead.Breaker.FailureRate = -1
	if found {
		r.State = lead.Breaker.State.String()
		t.stateNote(r, v, lead, h, true)
	}
}

// stateNote is the sentence about one breaker.
func (t *tile) stateNote(r *row, v *view, p policy.PartitionStats, h headline, known bool) {
	n := note{}
	why := ""
	if known {
		why, n.Since, n.Until = whyMoved(&h.event), v.date(h.at), v.date(h.until)
	}
	if t.vitals.known {
		n.Until = t.vitals.until(v, p.Breaker.Until)
	}
	switch b := &p.Breaker; b.State {
	case policy.StateOpen:
		n.Tone, n.Then, n.Text = toneTrouble, "next probe", or(why, "open since before this page began to watch")
	case policy.StateHalfOpen:
		n.Tone, n.Until = toneWarning, 0
		n.Text = fmt.Sprintf("probing: %s, %d failed", plural(b.Counts.Calls, "answer", "answers"), b.Counts.Failures)
		if b.Probes > 0 {
			n.Text += fmt.Sprintf(", %d out", b.Probes)
		}
	case policy.StateForcedOpen:
		n.Tone, n.Then, n.Text = toneTrouble, "ends", "forced open "+or(why, "by hand")+": every call is refused"
	case policy.StateDisabled:
		n.Tone, n.Then, n.Text = toneHand, "ends", "disabled "+or(why, "by hand")+": every call is let through"
	case policy.StateObserveOnly:
		n.Tone, n.Then, n.Text = toneHand, "ends", "only observing "+or(why, "by hand")+": nothing is refused"
	case policy.StateClosed:
		if !known || v.now-h.at > recently || h.event.From == policy.StateClosed {
			return
		}
		n.Tone, n.Text, n.Until = toneGood, "closed again: "+why, 0
	}
	n.Text += t.where(p.Name, r)
	r.add(n)
}

// where names the partition that a sentence is about, if there are others.
func (t *tile) where(partition string, r *row) string {
	if partition == "" || t.vitals.known && t.vitals.partitions == 1 {
		return ""
	}
	text := " (" + bounded(partition)
	if r.Troubled > 1 {
		text += fmt.Sprintf(" and %d more of %d", r.Troubled-1, max(t.vitals.partitions, r.Troubled))
	}
	return text + ")"
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// switches says what is switched by hand, and what the dependency asked for.
func (t *tile) switches(r *row, v *view) {
	if t.vitals.known && t.vitals.stats.RetriesOff || !t.vitals.known && t.retries {
		n := note{Tone: toneHand, Text: "retries and hedges are switched off", Then: "back"}
		if t.vitals.known {
			n.Until = t.vitals.until(v, t.vitals.stats.RetriesBack)
		}
		t.news.newest(func(h *headline) bool {
			if h.event.Kind != policy.KindRetriesSwitched {
				return true
			}
			n.Since, n.Text = v.date(h.at), n.Text+byWhom(&h.event)
			return false
		})
		r.add(n)
	}
	until := t.paced
	if t.vitals.known {
		until = 0
		if p := t.vitals.lead(); p.Paced > 0 {
			until = t.vitals.at + p.Paced
		}
	}
	if until > v.now {
		r.add(note{Tone: toneWarning, Text: "held back: the dependency asked for time", Until: v.date(until), Then: "goes on"})
	}
	if t.lost > 0 {
		r.add(note{Tone: toneQuiet, Text: plural(t.lost, "event is", "events are") + " missing: what is shown is incomplete"})
	}
}

// refusalNotes are the refusals that get a sentence of their own on the tile.
var refusalNotes = []struct {
	reason policy.Reason
	text   string
}{
	{policy.BudgetExhausted, "%s not sent: the budget is spent"},
	{policy.BulkheadFull, "%s turned away: no slot is free"},
	{policy.QueueTimeout, "%s turned away: no slot came free in time"},
	{policy.ThrottledLocally, "%s refused by the throttle"},
	{policy.RateLimited, "%s refused by the rate limit"},
	{policy.Paced, "%s refused: the dependency asked for time"},
	{policy.AllFailing, "%s not sent: nothing has succeeded yet"},
}

func (t *tile) refusing(r *row, v *view) {
	for _, about := range refusalNotes {
		n := v.sum.refused[about.reason]
		if n == 0 {
			continue
		}
		last := t.refusals[about.reason]
		what := plural(int64(n), "attempt", "attempts")
		if strings.HasSuffix(about.text, "is spent") {
			what = plural(int64(n), "re-send", "re-sends")
		}
		r.add(note{
			Tone: toneWarning, Text: fmt.Sprintf(about.text, what), About: why.Numbers(about.reason, last.numbers), Since: v.date(last.at),
		})
	}
}

const manyFail = 5 // so many calls must have ended before a share of failures is worth a colour

func (t *tile) failing(r *row) {
	o := &r.Outcomes
	sent := o.First + o.Rescued + o.Answered + o.Failed
	if sent < manyFail {
		return
	}
	switch share := float64(o.Failed) / float64(sent); {
	case share >= 0.5:
		r.add(note{Tone: toneTrouble, Text: percent(share) + " of the calls that were sent failed"})
	case share >= 0.05:
		r.add(note{Tone: toneWarning, Text: percent(share) + " of the calls that were sent failed"})
	}
}

// deciding says what became of requests with a key and of messages, where those are all
// that the tile is about: it is one of a server or a consumer.
func (t *tile) deciding(r *row) {
	if len(t.codes) == 0 || t.vitals.known {
		return
	}
	if r.State == "watched" && r.Calls == 0 {
		r.State = "keys"
	}
	var all []string
	for _, c := range t.countedCodes() {
		all = append(all, fmt.Sprintf("%s ×%d", spoken(c.Name), c.Count))
	}
	r.add(note{Tone: toneQuiet, Text: strings.Join(all, ", ")})
}

// countedCodes are the decisions about keys and messages, by name.
func (t *tile) countedCodes() (all []counted) {
	for _, code := range slices.Sorted(maps.Keys(t.codes)) {
		all = append(all, counted{code, t.codes[code]})
	}
	return all
}
