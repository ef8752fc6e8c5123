package quota

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

const second = clock.Instant(time.Second)

// bell counts how often it is rung.
type bell int

func (b *bell) Wake() { *b++ }

// hundred is a group of which 100 tokens come back in 100 s, and in which some answer has come.
func hundred(more ...policy.Quota) *Group {
	g := New(0, append([]policy.Quota{{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 10, Among: 1}}, more...))
	g.answered = true
	return g
}

func uses(g *Group, tokens float64) *Reservation {
	return g.Reserve(&Cost{Unit: "tokens", Amount: tokens}, "", policy.PriorityNormal)
}

func ask(t *testing.T, now, last clock.Instant, r *Reservation, want Answer, wantAt clock.Instant) {
	t.Helper()
	at, a := r.Ask(now, last, new(bell))
	if a != want || a != Taken && wantAt != 0 && (at < wantAt || at > wantAt+second/100) {
		t.Fatalf("answer %d at %v, want %d at %v", a, time.Duration(at), want, time.Duration(wantAt))
	}
}

func TestRoomIsTakenWaitedForOrRefused(t *testing.T) {
	g := hundred()
	ask(t, 0, 0, uses(g, 90), Taken, 0)
	ask(t, 0, 0, uses(g, 9), Refused, 1*second) // 2 of 100 are left alone
	r := uses(g, 18)
	ask(t, 0, 60*second, r, Later, 10*second)
	ask(t, 0, 60*second, uses(g, 18), Later, 60*second) // behind it
	ask(t, 0, 11*second, uses(g, 18), Refused, 44*second)
	ask(t, 9*second, 60*second, r, Later, 10*second)
	ask(t, 10*second, 60*second, r, Taken, 0)
	ask(t, 10*second, 60*second, r, Taken, 0)
	ask(t, 0, 60*second, uses(g, 101), TooLarge, 0)
	ask(t, 200*second, 300*second, uses(g, 100), Later, 0) // one waits
}

func TestAllOrNothing(t *testing.T) {
	g := hundred(policy.Quota{Unit: "requests", Amount: 2, Span: time.Second, Estimate: 1, Among: 1})
	for range 2 {
		ask(t, 0, 0, uses(g, 10), Taken, 0)
	}
	ask(t, 0, 0, uses(g, 10), Refused, 0)
	if left := g.Stats(0)[0].Left; left != 80 {
		t.Errorf("the refused one took tokens: %v are left", left)
	}
}

// A quota that has nothing left stops those that use it, and no others.
func TestAQuotaStopsOnlyThoseThatUseIt(t *testing.T) {
	g := hundred(policy.Quota{Unit: "requests", Amount: 100, Span: time.Second, Estimate: 1, Among: 1})
	first := uses(g, 10)
	ask(t, 0, 0, first, Taken, 0)
	first.Told(0, []policy.Remaining{{Unit: "tokens", Left: 0, Reset: 30 * time.Second}})
	ask(t, 0, 90*second, uses(g, 10), Later, 30*second)
	ask(t, 0, 90*second, uses(g, 0), Taken, 0)
	if !first.Blamed() {
		t.Error("the quota is not blamed")
	}
}

func TestWhatIsGivenBackIsThere(t *testing.T) {
	tests := []struct {
		name string
		end  func(r *Reservation)
		left float64
	}{
		{"an attempt that was not made", func(r *Reservation) { r.Drop(0) }, 100},
		{"one that was not sent", func(r *Reservation) { r.End(0, true, false) }, 100},
		{"one that was refused", func(r *Reservation) { r.End(0, false, true) }, 100},
		{"one that was answered", func(r *Reservation) { r.End(0, false, false) }, 60},
		{"one that ends twice", func(r *Reservation) { r.End(0, true, false); r.End(0, true, false); r.Drop(0) }, 100},
		{"one that used less", func(r *Reservation) { r.Spent(0, "tokens", 15); r.End(0, false, false) }, 85},
		{"one that used more, and says so later", func(r *Reservation) { r.End(0, false, false); r.Spent(0, "tokens", 70) }, 30},
		{"the last word counts", func(r *Reservation) { r.Spent(0, "tokens", 70); r.Spent(0, "tokens", 20) }, 80},
		{"no number", func(r *Reservation) { r.Spent(0, "tokens", math.NaN()) }, 60},
		{"below zero", func(r *Reservation) { r.Spent(0, "tokens", -5) }, 60},
		{"of another unit", func(r *Reservation) { r.Spent(0, "usd", 5) }, 60},
		{"without bound", func(r *Reservation) { r.Spent(0, "tokens", math.Inf(1)) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := hundred()
			r := uses(g, 40)
			ask(t, 0, 0, r, Taken, 0)
			tt.end(r)
			if left := g.Stats(0)[0].Left; math.Abs(left-tt.left) > 1e-9 {
				t.Errorf("%v are left", left)
			}
			if !g.Idle(1000 * second) {
				t.Log("it is out still")
			}
		})
	}
}

// Who waits leaves when its call ends, and the next one is woken.
func TestALeftPlaceInLineIsTaken(t *testing.T) {
	g := hundred()
	ask(t, 0, 0, uses(g, 98), Taken, 0)
	first, second_ := uses(g, 90), uses(g, 1)
	var one, two bell
	first.Ask(0, clock.Never, &one)
	second_.Ask(0, clock.Never, &two)
	if first.Drop(0); two != 1 || first.Waits() || !second_.Waits() {
		t.Errorf("the next is woken %d times", two)
	}
	ask(t, 2*second, clock.Never, second_, Taken, 0)
	if g.Idle(1000 * second) {
		t.Error("idle, though one is out")
	}
	second_.Drop(2 * second)
	if len(g.line.waiting) != 0 {
		t.Error("one waits still")
	}
}

// The order of those who wait, as names: tenant, number, and H or L for priorities other than normal.
func TestTheOrderOfThoseWhoWait(t *testing.T) {
	type one struct {
		name, tenant string
		tokens       float64
		priority     policy.Priority
	}
	tests := []struct {
		name string
		come []one
		want []string
	}{
		{"first come", []one{{"1", "", 5, 0}, {"2", "", 5, 0}, {"3", "", 5, 0}}, []string{"1", "2", "3"}},
		{"tenants take turns", []one{{"a1", "a", 5, 0}, {"a2", "a", 5, 0}, {"a3", "a", 5, 0}, {"b1", "b", 5, 0}, {"b2", "b", 5, 0}}, []string{"a1", "b1", "a2", "b2", "a3"}},
		{"a huge call costs its tenant", []one{{"a1", "a", 50, 0}, {"a2", "a", 5, 0}, {"b1", "b", 20, 0}, {"b2", "b", 20, 0}, {"b3", "b", 20, 0}}, []string{"a1", "b1", "b2", "b3", "a2"}},
		{"priority", []one{{"1", "", 5, policy.PriorityLow}, {"2", "", 5, 0}, {"3", "", 5, policy.PriorityHigh}}, []string{"3", "2", "1"}},
		{"small ones don't overtake a large one", []one{{"1", "", 90, 0}, {"2", "", 1, 0}, {"3", "", 1, 0}}, []string{"1", "2", "3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := hundred()
			ask(t, 0, 0, uses(g, 97), Taken, 0)
			ask(t, 0, clock.Never, g.Reserve(&Cost{Unit: "tokens", Amount: 4}, "first", policy.PriorityHigh+1), Later, 0)
			names := map[*Reservation]string{}
			for _, c := range tt.come {
				r := g.Reserve(&Cost{Unit: "tokens", Amount: c.tokens}, c.tenant, c.priority)
				names[r] = c.name
				ask(t, 0, clock.Never, r, Later, 0)
			}
			var got []string
			for _, r := range g.line.waiting[1:] {
				got = append(got, names[r])
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestAReloadKeepsWhatIsUsed(t *testing.T) {
	tests := []struct {
		name string
		to   []policy.Quota
		left float64
	}{
		{"more", []policy.Quota{{Unit: "tokens", Amount: 150, Span: 100 * time.Second, Estimate: 10, Among: 1}}, 90},
		{"less", []policy.Quota{{Unit: "tokens", Amount: 80, Span: 100 * time.Second, Estimate: 10, Among: 1}}, 20},
		{"less than is reserved", []policy.Quota{{Unit: "tokens", Amount: 30, Span: 100 * time.Second, Estimate: 10, Among: 1}}, 0},
		{"another span", []policy.Quota{{Unit: "tokens", Amount: 100, Span: 50 * time.Second, Estimate: 10, Among: 1}}, 40},
		{"a window", []policy.Quota{{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 10, Among: 1, Window: true}}, 40},
		{"another unit", []policy.Quota{{Unit: "usd", Amount: 100, Span: 100 * time.Second, Estimate: 10, Among: 1}}, 100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := hundred()
			r := uses(g, 60)
			ask(t, 0, 0, r, Taken, 0)
			waits := uses(g, 45)
			ask(t, 0, clock.Never, waits, Later, 0)
			g.Reload(0, tt.to)
			if left := g.Stats(0)[0].Left; left != tt.left {
				t.Errorf("%v are left", left)
			}
			if at, a := waits.Ask(300*second, clock.Never, nil); a != Taken {
				if _, a = waits.Ask(at, clock.Never, nil); a != Taken && tt.to[0].Amount > 45 {
					t.Errorf("it never opens again: %d", a)
				}
			}
			r.End(300*second, false, false)
			g.Reload(300*second, nil)
			ask(t, 300*second, 0, uses(g, 1e6), Taken, 0) // none is left
		})
	}
}

// An answer to an attempt that was sent before is no news.
func TestAnOlderWordIsNoNews(t *testing.T) {
	g := hundred()
	one, two := uses(g, 10), uses(g, 10)
	ask(t, 0, 0, one, Taken, 0)
	ask(t, 0, 0, two, Taken, 0)
	two.Told(second, []policy.Remaining{{Unit: "tokens", Left: 30, Limit: 100}})
	one.Told(2*second, []policy.Remaining{{Unit: "tokens", Left: 90, Limit: 100}})
	if left := g.Stats(2 * second)[0].Left; left != 31 {
		t.Errorf("%v are left", left)
	}
	three := uses(g, 10)
	ask(t, 2*second, 0, three, Taken, 0)
	two.Told(2*second, []policy.Remaining{{Unit: "tokens", Left: 30, Limit: 100}})
	if left := g.Stats(2 * second)[0].Left; left != 20 { // what was sent since is not in it
		t.Errorf("%v are left", left)
	}
	if left := g.Stats(400 * second)[0]; left.Left != 100 || left.Told {
		t.Errorf("a word of long ago counts: %+v", left)
	}
}

func TestWhatWasUsedCountsOnceInEitherOrder(t *testing.T) {
	told := []policy.Remaining{{Unit: "tokens", Left: 70}}
	for _, spentFirst := range []bool{true, false} {
		g := hundred()
		r := uses(g, 10)
		ask(t, 0, 0, r, Taken, 0)
		if spentFirst {
			r.Spent(0, "tokens", 30)
		}
		r.Told(0, told)
		if !spentFirst {
			r.Spent(0, "tokens", 30)
		}
		if left := g.Stats(0)[0].Left; left != 70 {
			t.Errorf("spent first %t: %v are left of 100, and 30 were used", spentFirst, left)
		}
	}
}

func TestWordsThatMakeNoSenseAreIgnored(t *testing.T) {
	for _, w := range []policy.Remaining{
		{Unit: "tokens", Left: math.NaN()}, {Unit: "tokens", Left: -1}, {Unit: "usd", Left: 0}, {Unit: "", Left: 0}, {Unit: "tokens", Left: 0, Window: time.Hour},
		{Unit: "tokens", Left: 1e300, Limit: 1e300}, {Unit: "tokens", Left: math.Inf(1), Limit: math.Inf(1)}, {Unit: "tokens", Left: 99, Limit: math.NaN()}, {Unit: "tokens", Left: 99, Limit: -5, Reset: -5, Window: -5},
	} {
		g := hundred()
		r := uses(g, 10)
		ask(t, 0, 0, r, Taken, 0)
		r.Told(0, []policy.Remaining{w})
		r.End(0, false, false)
		if s := g.Stats(0)[0]; s.Left < 89 || s.Left > 90 || s.Amount != 100 {
			t.Errorf("%+v: %+v", w, s)
		}
	}
}

// A word that nothing is left holds calls for a span at most, whatever its reset says.
func TestAHoldEnds(t *testing.T) {
	for _, window := range []bool{false, true} {
		g := New(0, []policy.Quota{{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 10, Among: 1, Window: window}})
		r := uses(g, 10)
		ask(t, 0, 0, r, Taken, 0)
		r.Told(0, []policy.Remaining{{Unit: "tokens", Left: 0, Reset: math.MaxInt64}})
		r.End(0, false, true)
		next := uses(g, 10)
		ask(t, 1, clock.Never, next, Later, 0)
		ask(t, 101*second, clock.Never, next, Taken, 0)
	}
}

// A window opens again also after the clock has jumped.
func TestAWindowOpensAgain(t *testing.T) {
	g := New(-50*second, []policy.Quota{{Unit: "tokens", Amount: 100, Span: 10 * time.Second, Estimate: 10, Among: 1, Window: true}})
	g.answered = true
	for _, now := range []clock.Instant{-50 * second, -20 * second, 0, 10 * second, 1_000_000 * second} {
		ask(t, now, 0, uses(g, 99), Taken, 0)
		ask(t, now, now, uses(g, 50), Refused, now+10*second)
	}
}

// Before the first answer, or the first word of a stream that goes on, many processes that start at once must not use
// many times the amount.
func TestBeforeTheFirstAnswerLittleIsSent(t *testing.T) {
	for fact, answer := range map[string]func(*Reservation){
		"an answer": func(r *Reservation) { r.End(1, false, false) },
		"a word":    func(r *Reservation) { r.Told(1, []policy.Remaining{{Unit: "tokens", Left: 94, Limit: 100}}) },
	} {
		g := New(0, []policy.Quota{{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 1, Among: 1}})
		sent := 0
		var last *Reservation
		for range 100 {
			r := uses(g, 1)
			if _, a := r.Ask(0, 0, nil); a == Taken {
				sent, last = sent+1, r
			}
		}
		if sent != 5 {
			t.Errorf("%s: %d are sent", fact, sent)
		}
		answer(last)
		ask(t, 1, 1, uses(g, 50), Taken, 0)
	}
}

// What a tenant asked for in vain is no use of its share.
func TestATenantIsNotChargedForWhatItDidNotGet(t *testing.T) {
	g := hundred()
	ask(t, 0, 0, uses(g, 97), Taken, 0)
	of := func(tenant string) *Reservation {
		r := g.Reserve(&Cost{Unit: "tokens", Amount: 5}, tenant, policy.PriorityNormal)
		ask(t, 0, clock.Never, r, Later, 0)
		return r
	}
	var vain []*Reservation
	for range 20 {
		vain = append(vain, of("a"))
	}
	b1, b2 := of("b"), of("b")
	for _, r := range vain {
		r.Drop(0)
	}
	a := of("a")
	if want := []*Reservation{b1, a, b2}; !slices.Equal(g.line.waiting, want) {
		t.Error("a, which got nothing, is behind b's second call")
	}
}

// What waits for the first answer of another gets its turn with that, also where a quota lasts for a day.
func TestTheFirstAnswerLetsTheOthersGo(t *testing.T) {
	g := New(0, []policy.Quota{{Unit: policy.Requests, Amount: 100, Span: 24 * time.Hour, Estimate: 1, Among: 1}})
	var first *Reservation
	var waiting []*Reservation
	var rung bell
	for range 20 {
		r := g.Reserve(nil, "", policy.PriorityNormal)
		switch _, a := r.Ask(0, second, &rung); a {
		case Taken:
			first = r
		case Later:
			waiting = append(waiting, r)
		default:
			t.Fatalf("refused while %v are left", g.Stats(0)[0].Left)
		}
	}
	if n := len(waiting); n < 5 || g.Stats(0)[0].Waiting != n {
		t.Fatalf("%d wait", n)
	}
	ask(t, second, second, waiting[0], Refused, 2*second)
	first.End(second/2, false, false)
	if rung == 0 {
		t.Error("nothing wakes them")
	}
	for _, r := range waiting[1:] {
		ask(t, second/2, second, r, Taken, second/2)
	}
}

// Of several quotas of a unit a word without a span is of the one with that limit, if that is clear.
func TestAWordFindsItsQuotaByTheLimit(t *testing.T) {
	for limit, told := range map[float64][2]bool{60: {true, false}, 50: {true, false}, 1440: {false, true}, 300: {}, 0: {}, -1: {}, math.Inf(1): {}} {
		g := New(0, []policy.Quota{{Unit: "requests", Amount: 60, Span: time.Minute, Estimate: 1, Among: 1}, {Unit: "requests", Amount: 1440, Span: 24 * time.Hour, Estimate: 1, Among: 1}})
		r := g.Reserve(nil, "", policy.PriorityNormal)
		ask(t, 0, 0, r, Taken, 0)
		r.Told(0, []policy.Remaining{{Unit: "requests", Left: 20, Limit: limit}})
		if all := g.Stats(0); all[0].Told != told[0] || all[1].Told != told[1] {
			t.Errorf("a limit of %v: %+v", limit, all)
		}
	}
}

// A server that takes a call which uses more than the limit that it names has another limit. Calls are not refused for it.
func TestALimitThatTheServerDoesNotKeepIsNone(t *testing.T) {
	for _, refused := range []bool{false, true} {
		g := hundred()
		r := uses(g, 40)
		ask(t, 0, 0, r, Taken, 0)
		r.Told(0, []policy.Remaining{{Unit: "tokens", Left: 20, Limit: 20}})
		r.End(0, false, refused)
		if refused {
			ask(t, 1, 1, uses(g, 40), TooLarge, 0)
			continue
		}
		r.Spent(0, "tokens", 35)
		ask(t, 1, 1, uses(g, 40), Taken, 0)
	}
}

// A refusal shows that words are true again, also while none counts.
func TestARefusalEndsTheDoubt(t *testing.T) {
	g := hundred()
	g.levels[0].disbelieve(0)
	r := uses(g, 10)
	ask(t, 1, 1, r, Taken, 0)
	r.Told(1, []policy.Remaining{{Unit: "tokens", Left: 0, Limit: 100}})
	r.End(1, false, true)
	if g.levels[0].deaf > 1 {
		t.Error("no word counts")
	}
}

// A limit that the server named once must not refuse a call for ever: no answer would come to say another one.
func TestALimitAgesAsWordsDo(t *testing.T) {
	for _, window := range []bool{false, true} {
		g := New(0, []policy.Quota{{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 1, Among: 1, Window: window}})
		r := uses(g, 1)
		ask(t, 0, 0, r, Taken, 0)
		r.Told(0, []policy.Remaining{{Unit: "tokens", Left: 10, Limit: 10}})
		r.End(0, false, false)
		ask(t, 150*second, 150*second, uses(g, 50), TooLarge, 150*second)
		ask(t, 250*second, 250*second, uses(g, 50), Taken, 250*second)
	}
}
