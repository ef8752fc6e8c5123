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
	toneHand    = "hand"    // overridden by hand
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
	t.leaking(r, v)
	t.failing(r)
	t.deciding(r)
	if len(r.Notes) > 0 {
		slices.SortStableFunc(r.Notes, func(a, b note) int { return worse[b.Tone] - worse[a.Tone] })
		r.Tone = r.Notes[0].Tone
		slices.SortStableFunc(r.Notes, func(a, b note) int { return strings.Compare(b.Head, a.Head) }) // since when comes first
	}
	if worse[r.Tone] >= worse[toneWarning] {
		r.Doing, r.Cause = t.doing(r), causeOf(t.errors, v)
	}
	t.calm = r.Tone == toneQuiet
}

func (r *row) add(n note) { r.Notes = append(r.Notes, n) }

// Where the page sends its readers: to what an alert of the same name says to do, or a reason.
const (
	docs    = "https://github.com/gabion-go/gabion/blob/main/docs/"
	runbook = docs + "alerts.md#"
	reasons = docs + "reasons.md#"
)

// causeOf is the failure that happened most often of those that go on. It is nil where none
// does, as when a breaker was opened by hand.
func causeOf(failures []failure, v *view) *cause {
	var most *failure
	for i := range failures {
		f := &failures[i]
		if v.now-f.last <= recently && f.class != policy.ClassClient && f.class != policy.ClassBusiness && (most == nil || f.count > most.count) {
			most = f
		}
	}
	if most == nil {
		return nil
	}
	text := most.class.String()
	if most.code != "" {
		text += " " + most.code
	}
	if most.reason != policy.None {
		text += ", " + spoken(most.reason.String())
	}
	return &cause{fmt.Sprintf("%s ×%d", text, most.count), v.date(most.last)}
}

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
	t.stateNote(r, v, lead, t.breakers[bounded(lead.Name)])
}

// told is breaker for a dependency that is known by its events alone.
func (t *tile) told(r *row, v *view) {
	r.State = "watched"
	var lead policy.PartitionStats
	var b breaker
	found := false
	for name, one := range t.breakers {
		to := one.last.event.To % numStates
		if !found || severity[to] > severity[lead.Breaker.State] {
			lead.Name, lead.Breaker.State, b, found = name, to, one, true
		}
		if name != "" && to != policy.StateClosed {
			r.Troubled++
		}
	}
	lead.Breaker.FailureRate = -1
	if found {
		r.State = lead.Breaker.State.String()
		t.stateNote(r, v, lead, b)
	}
}

// stateNote is the sentence about one breaker.
func (t *tile) stateNote(r *row, v *view, p policy.PartitionStats, b breaker) {
	n := note{}
	why := ""
	if b.last.event.Kind != 0 && b.last.event.To == p.Breaker.State {
		why, n.Since, n.Until = whyMoved(&b.last.event), v.date(b.last.at), v.date(b.last.until)
	}
	if t.vitals.known {
		n.Until = t.vitals.until(v, p.Breaker.Until)
	}
	switch p.Breaker.State {
	case policy.StateOpen, policy.StateHalfOpen:
		t.openNote(&n, v, &p, &b)
	case policy.StateForcedOpen:
		n.Tone, n.Then, n.Text = toneTrouble, "ends", "forced open "+or(why, "by hand")+": every call is refused"
	case policy.StateDisabled:
		n.Tone, n.Then, n.Text = toneHand, "ends", "disabled "+or(why, "by hand")+": every call is let through"
	case policy.StateObserveOnly:
		n.Tone, n.Then, n.Text = toneHand, "ends", "only observing "+or(why, "by hand")+": nothing is refused"
	case policy.StateClosed:
		if why == "" || v.now-b.last.at > recently || b.last.event.From == policy.StateClosed {
			return
		}
		n.Tone, n.Text, n.Until = toneGood, "closed again: "+why, 0
	}
	n.Text += t.where(p.Name, r)
	r.add(n)
}

// openNote says since when and why a breaker is not closed, and what its probes say.
func (t *tile) openNote(n *note, v *view, p *policy.PartitionStats, b *breaker) {
	n.Tone, n.Since, n.Help = toneTrouble, 0, runbook+"gabionbreakeropen"
	n.Text = "open since before this page began to watch"
	if h, known := b.opening(); known {
		n.Head, n.Since, n.Text = "open", v.date(h.at), whyMoved(&h.event)
	}
	var more []string
	failed := b.probes != nil && b.probes.count > 0
	if failed {
		text := plural(b.probes.count, "probe", "probes") + " failed"
		if b.probes.last != "" {
			text += ", last: " + b.probes.last
		}
		more = append(more, text)
	}
	if s := &p.Breaker; s.State == policy.StateHalfOpen {
		n.Until = 0
		text := fmt.Sprintf("probing: %s, %d failed", plural(s.Counts.Calls, "answer", "answers"), s.Counts.Failures)
		if s.Probes > 0 {
			text += fmt.Sprintf(", %d out", s.Probes)
		}
		more = append(more, text)
		if !failed {
			n.Tone = toneWarning // the first probe may well close it
		}
	} else {
		n.Then = t.nextProbe(s)
	}
	n.More = strings.Join(more, "; ")
}

// nextProbe says what an open breaker waits for before it probes.
func (t *tile) nextProbe(b *policy.BreakerStats) string {
	most := t.vitals.policy.Breaker.OpenCalls
	switch {
	case !t.vitals.known:
		return "next probe at the latest" // the policy is not known
	case most > 0:
		n := min(most, max(b.Opens, 1)+2) // it begins at 3 and grows with each open
		return fmt.Sprintf("probes after %s, at the latest", plural(int64(n), "refused call", "refused calls"))
	}
	return "next probe"
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
		r.add(t.heldBack(v, until))
	}
	if t.lost > 0 {
		r.add(note{Tone: toneQuiet, Text: plural(t.lost, "event is", "events are") + " missing: what is shown is incomplete"})
	}
}

// heldBack says what comes of a dependency's wish for time: where something succeeds, calls are
// spaced, and else none goes out before the time is over.
func (t *tile) heldBack(v *view, until time.Duration) note {
	l := t.flow.lately()
	if first := l.attempts - l.resends; first > 0 {
		out := fmt.Sprintf("%s of %s", trimmed(first), trimmed(l.calls))
		if first >= l.calls {
			out = "all " + trimmed(first)
		}
		return note{Tone: toneWarning, Text: "the dependency asked for time: calls are spaced, " + out + " a second went out"}
	}
	return note{Tone: toneWarning, Text: "the dependency asked for time: nothing is sent", Until: v.date(until), Then: "goes on"}
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
			Help: reasons + about.reason.String(),
		})
	}
}

// leaking says that slots are held by results that are not closed.
func (t *tile) leaking(r *row, v *view) {
	s := r.Slots
	if s == nil {
		return
	}
	away := v.sum.refused[policy.BulkheadFull] + v.sum.refused[policy.QueueTimeout]
	full := s.InUse >= s.Limit
	text := ""
	switch open := t.vitals.stats.Streams; {
	case open > 0 && (full || away > 0):
		text = fmt.Sprintf("%s taken, and %s still open after their time: are bodies closed?",
			plural(int64(s.InUse), "slot is", "slots are"), plural(open, "result is", "results are"))
	case full && away > 0 && 2*t.out < int64(s.InUse):
		text = fmt.Sprintf("%s taken, but only %s out: the others hold results that are still open, are bodies closed?",
			plural(int64(s.InUse), "slot is", "slots are"), plural(t.out, "attempt is", "attempts are"))
	default:
		return
	}
	r.Notes = append([]note{{Tone: toneWarning, Text: text}}, r.Notes...) // it is why calls are turned away
}

// doing says in a line what gabion does just now.
func (t *tile) doing(r *row) string {
	l := t.flow.lately()
	var parts []string
	if l.refused > 0 {
		verb := "sends"
		if r.State == "open" || r.State == "half_open" {
			verb = "probes"
		}
		if r.Partitions > 1 {
			verb = "sends" // to the other partitions, too
		}
		text := fmt.Sprintf("refuses %s of %s calls/s", trimmed(l.refused), trimmed(l.calls))
		if l.attempts > 0 {
			text += fmt.Sprintf(", %s %s/s", verb, trimmed(l.attempts))
		}
		parts = append(parts, text)
	}
	if sent := l.calls - l.refused; sent > 0 && l.resends >= 0.05*sent {
		text := fmt.Sprintf("sends %s attempts a call, %s of them ", trimmed(1+l.resends/sent), trimmed(l.resends/sent))
		if r.Hedges > 0 {
			text += "retries and hedges"
		} else {
			text += "retries"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

const manyFail = 5 // calls that must have ended before a share of failures is worth a colour

func (t *tile) failing(r *row) {
	o := &r.Outcomes
	sent := o.First + o.Rescued + o.Answered + o.Failed
	if sent < manyFail {
		return
	}
	share := float64(o.Failed) / float64(sent)
	n := note{Tone: toneWarning, Text: percent(share) + " of the calls that were sent failed", Help: runbook + "gabioncallsfailing"}
	switch {
	case share < 0.05:
		return
	case share >= 0.5:
		n.Tone = toneTrouble
	}
	if b := t.vitals.lead().Breaker; t.vitals.known && !t.vitals.unguarded && b.State == policy.StateClosed {
		n.More = breakerLevel(&b, &t.vitals.policy.Breaker)
	}
	r.add(n)
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
