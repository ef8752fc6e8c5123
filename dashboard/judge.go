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

// judgement is what a row says of its tile: the state that the dependency is in, and why.
type judgement struct {
	*tile
	r *row
	v *view
}

// judge says in r what state the dependency is in, and why. The caller holds t.mu.
func (t *tile) judge(r *row, v *view) {
	j := &judgement{t, r, v}
	r.Tone = toneQuiet
	j.breaker()
	j.switches()
	j.refusing()
	j.leaking()
	j.failing()
	j.deciding()
	if len(r.Notes) > 0 {
		slices.SortStableFunc(r.Notes, func(a, b note) int { return worse[b.Tone] - worse[a.Tone] })
		r.Tone = r.Notes[0].Tone
		slices.SortStableFunc(r.Notes, func(a, b note) int { return strings.Compare(b.Head, a.Head) }) // since when comes first
	}
	if worse[r.Tone] >= worse[toneWarning] {
		r.Doing, r.Cause = j.doing(), causeOf(t.errors, v)
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
func (j *judgement) breaker() {
	if !j.vitals.known {
		j.told()
		return
	}
	lead := j.vitals.lead()
	switch {
	case !j.seen && j.r.Calls == 0 && lead.Breaker.State == policy.StateClosed && lead.Breaker.Counts.Calls == 0:
		j.r.State = "never_called"
		j.r.add(note{Text: "never called yet", Tone: toneQuiet})
		return
	case j.vitals.unguarded:
		j.r.State = "no_breaker"
		return
	}
	j.r.State = lead.Breaker.State.String()
	j.stateNote(lead, j.breakers[bounded(lead.Name)])
}

// told is breaker for a dependency that is known by its events alone.
func (j *judgement) told() {
	j.r.State = "watched"
	var lead policy.PartitionStats
	var b breaker
	found := false
	for name, one := range j.breakers {
		to := one.last.event.To % numStates
		if !found || severity[to] > severity[lead.Breaker.State] {
			lead.Name, lead.Breaker.State, b, found = name, to, one, true
		}
		if name != "" && to != policy.StateClosed {
			j.r.Troubled++
		}
	}
	lead.Breaker.FailureRate = -1
	if found {
		j.r.State = lead.Breaker.State.String()
		j.stateNote(lead, b)
	}
}

// stateNote is the sentence about one breaker.
func (j *judgement) stateNote(p policy.PartitionStats, b breaker) {
	n := note{}
	why := ""
	if b.last.event.Kind != 0 && b.last.event.To == p.Breaker.State {
		why, n.Since, n.Until = whyMoved(&b.last.event), j.v.date(b.last.at), j.v.date(b.last.until)
	}
	if j.vitals.known {
		n.Until = j.vitals.until(j.v, p.Breaker.Until)
	}
	switch p.Breaker.State {
	case policy.StateOpen, policy.StateHalfOpen:
		j.openNote(&n, &p, &b)
	case policy.StateForcedOpen:
		n.Tone, n.Then, n.Text = j.vitals.forcedOpen(p.Name, "forced open "+or(why, "by hand")+": ")
	case policy.StateDisabled:
		n.Tone, n.Then, n.Text = toneHand, "ends", "disabled "+or(why, "by hand")+": every call is let through"
	case policy.StateObserveOnly:
		n.Tone, n.Then, n.Text = toneHand, "ends", "only observing "+or(why, "by hand")+": nothing is refused"
	case policy.StateClosed:
		if why == "" || j.v.now-b.last.at > recently || b.last.event.From == policy.StateClosed {
			return
		}
		n.Tone, n.Text, n.Until = toneGood, "closed again: "+why, 0
	}
	n.Text += j.where(p.Name)
	j.r.add(n)
}

// openNote says since when and why a breaker is not closed, and what its probes say.
func (j *judgement) openNote(n *note, p *policy.PartitionStats, b *breaker) {
	n.Tone, n.Since, n.Help = toneTrouble, 0, runbook+"gabionbreakeropen"
	n.Text = "open since before this page began to watch"
	if h, known := b.opening(); known {
		n.Head, n.Since, n.Text = "open", j.v.date(h.at), whyMoved(&h.event)
	}
	var more []string
	endpoint, works := j.vitals.endpoint(p.Name)
	if works {
		n.Tone = toneWarning
		more = append(more, "left out, others get its calls")
	}
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
	} else if n.Then = "next probe"; !endpoint {
		n.Then = j.nextProbe(s)
	}
	n.More = strings.Join(more, "; ")
}

// nextProbe says what an open breaker waits for before it probes.
func (j *judgement) nextProbe(b *policy.BreakerStats) string {
	most := j.vitals.policy.Breaker.OpenCalls
	switch {
	case !j.vitals.known:
		return "next probe at the latest" // the policy is not known
	case most > 0:
		n := min(most, max(b.Opens, 1)+2) // it begins at 3 and grows with each open
		return fmt.Sprintf("probes after %s, at the latest", plural(int64(n), "refused call", "refused calls"))
	}
	return "next probe"
}

// where names the partition that a sentence is about, if there are others.
func (j *judgement) where(partition string) string {
	if partition == "" || j.vitals.known && j.vitals.partitions == 1 {
		return ""
	}
	text := " (" + bounded(partition)
	if j.r.Troubled > 1 {
		text += fmt.Sprintf(" and %d more of %d", j.r.Troubled-1, max(j.vitals.partitions, j.r.Troubled))
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
func (j *judgement) switches() {
	if j.vitals.known && j.vitals.stats.RetriesOff || !j.vitals.known && j.retries {
		n := note{Tone: toneHand, Text: "retries and hedges are switched off", Then: "back"}
		if j.vitals.known {
			n.Until = j.vitals.until(j.v, j.vitals.stats.RetriesBack)
		}
		j.news.newest(func(h *headline) bool {
			if h.event.Kind != policy.KindRetriesSwitched {
				return true
			}
			n.Since, n.Text = j.v.date(h.at), n.Text+byWhom(&h.event)
			return false
		})
		j.r.add(n)
	}
	until := j.paced
	if j.vitals.known {
		until = 0
		if p := j.vitals.lead(); p.Paced > 0 {
			until = j.vitals.at + p.Paced
		}
	}
	if until > j.v.now {
		j.r.add(j.heldBack(until))
	}
	if j.lost > 0 {
		j.r.add(note{Tone: toneQuiet, Text: plural(j.lost, "event is", "events are") + " missing: what is shown is incomplete"})
	}
}

// heldBack says what comes of a dependency's wish for time: where something succeeds, calls are
// spaced, and else none goes out before the time is over.
func (j *judgement) heldBack(until time.Duration) note {
	l := j.flow.lately()
	if first := l.attempts - l.resends; first > 0 {
		out := fmt.Sprintf("%s of %s", trimmed(first), trimmed(l.calls))
		if first >= l.calls {
			out = "all " + trimmed(first)
		}
		return note{Tone: toneWarning, Text: "the dependency asked for time: calls are spaced, " + out + " a second went out"}
	}
	return note{Tone: toneWarning, Text: "the dependency asked for time: nothing is sent", Until: j.v.date(until), Then: "goes on"}
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

func (j *judgement) refusing() {
	for _, about := range refusalNotes {
		n := j.v.sum.refused[about.reason]
		if n == 0 {
			continue
		}
		last := j.refusals[about.reason]
		what := plural(int64(n), "attempt", "attempts")
		if strings.HasSuffix(about.text, "is spent") {
			what = plural(int64(n), "re-send", "re-sends")
		}
		j.r.add(note{
			Tone: toneWarning, Text: fmt.Sprintf(about.text, what), About: why.Numbers(about.reason, last.numbers), Since: j.v.date(last.at),
			Help: reasons + about.reason.String(),
		})
	}
}

// leaking says that slots are held by results that are not closed.
func (j *judgement) leaking() {
	s := j.r.Slots
	if s == nil {
		return
	}
	away := j.v.sum.refused[policy.BulkheadFull] + j.v.sum.refused[policy.QueueTimeout]
	full := s.InUse >= s.Limit
	text := ""
	switch open := j.vitals.stats.Streams; {
	case open > 0 && (full || away > 0):
		text = fmt.Sprintf("%s taken, and %s still open after their time: are bodies closed?",
			plural(int64(s.InUse), "slot is", "slots are"), plural(open, "result is", "results are"))
	case full && away > 0 && 2*j.out < int64(s.InUse):
		text = fmt.Sprintf("%s taken, but only %s out: the others hold results that are still open, are bodies closed?",
			plural(int64(s.InUse), "slot is", "slots are"), plural(j.out, "attempt is", "attempts are"))
	default:
		return
	}
	j.r.Notes = append([]note{{Tone: toneWarning, Text: text}}, j.r.Notes...) // it is why calls are turned away
}

// doing says in a line what gabion does just now.
func (j *judgement) doing() string {
	l := j.flow.lately()
	var parts []string
	if l.refused > 0 {
		verb := "sends"
		if j.r.State == "open" || j.r.State == "half_open" {
			verb = "probes"
		}
		if j.r.Partitions > 1 {
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
		if j.r.Hedges > 0 {
			text += "retries and hedges"
		} else {
			text += "retries"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

const manyFail = 5 // calls that must have ended before a share of failures is worth a colour

func (j *judgement) failing() {
	o := &j.r.Outcomes
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
	if b := j.vitals.lead().Breaker; j.vitals.known && !j.vitals.unguarded && b.State == policy.StateClosed {
		n.More = breakerLevel(&b, &j.vitals.policy.Breaker)
	}
	j.r.add(n)
}

// deciding says what became of requests with a key and of messages, where those are all
// that the tile is about: it is one of a server or a consumer.
func (j *judgement) deciding() {
	if len(j.codes) == 0 || j.vitals.known {
		return
	}
	if j.r.State == "watched" && j.r.Calls == 0 {
		j.r.State = "keys"
	}
	var all []string
	for _, c := range j.countedCodes() {
		all = append(all, fmt.Sprintf("%s ×%d", spoken(c.Name), c.Count))
	}
	j.r.add(note{Tone: toneQuiet, Text: strings.Join(all, ", ")})
}

// countedCodes are the decisions about keys and messages, by name.
func (t *tile) countedCodes() (all []counted) {
	for _, code := range slices.Sorted(maps.Keys(t.codes)) {
		all = append(all, counted{code, t.codes[code]})
	}
	return all
}
