package sim

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// heard is what a caller heard of one attempt, in a run or of a Live.
type heard struct {
	call uint64
	try  int
	at   time.Duration // when it was sent
	took time.Duration
	code string // empty for a broken connection
	none bool   // and none that was refused
}

func (h heard) String() string {
	return fmt.Sprintf("%x/%d sent at %v took %v: %q, refused %v", h.call, h.try, h.at, h.took, h.code, h.none)
}

// inRun plays a world with one client, and returns what it heard and when it sent what.
func inRun(t *testing.T, w *World, seed uint64) (sent []heard, all map[uint64]map[int]heard) {
	t.Helper()
	all = map[uint64]map[int]heard{}
	r := RunWatched(w, seed, &Watch{
		Whole: true,
		Tell: func(call uint64, _ int, e policy.Event) {
			if e.Kind == policy.KindAttemptSent {
				sent = append(sent, heard{call: call, try: int(e.Attempt), at: time.Duration(e.At)})
			}
		},
		Heard: func(call uint64, _, try int, took time.Duration, o policy.Outcome) {
			if all[call] == nil {
				all[call] = map[int]heard{}
			}
			all[call][try] = heard{call: call, try: try, took: took, code: o.Code, none: o.NeverSent}
		},
	})
	for _, b := range r.Broken {
		t.Error(b)
	}
	slices.SortStableFunc(sent, func(a, b heard) int { return int(a.at - b.at) })
	return sent, all
}

// plans are what may be wrong with a service, each kind of fault among them.
func plans() map[string]World {
	busy := Service{Workers: 4, Queue: 6, Time: draw.LogNormal(20*ms, 80*ms), Honours: true}
	fast := Service{Time: draw.Exponential(5 * ms)}
	many := busy
	many.Replicas, many.Balance, many.RefuseCost, many.Crowd = 3, TwoChoices, 0.3, 0.01
	codel := busy
	codel.Discipline, codel.Queue, codel.Honours = CoDel, 100, false
	front := busy
	front.Admission = &Admission{Limit: 6, Queue: 3}
	f := func(f Fault) Fault { f.At, f.For = 2*time.Second, 3*time.Second; return f }
	with := func(v Service, faults ...Fault) World { return World{Services: []Service{v}, Faults: faults} }
	return map[string]World{
		"errors before the work":    with(busy, f(Fault{Kind: Errors, Status: 503, Share: 0.5, Ramp: time.Second})),
		"errors with a Retry-After": with(fast, f(Fault{Kind: Errors, Status: 429, Share: 0.5, After: 200 * ms})),
		"errors after the work":     with(busy, f(Fault{Kind: Errors, Status: 500, Share: 0.4, Late: true})),
		"529":                       with(fast, f(Fault{Kind: Errors, Status: 529, Share: 0.5})),
		"lost answers":              with(busy, f(Fault{Kind: LostAnswers, Share: 0.5})),
		"answers that break off":    with(busy, f(Fault{Kind: CutBody, Share: 0.5})),
		"slow bodies":               with(busy, f(Fault{Kind: SlowBody, Share: 0.5, Add: 20 * ms})),
		"resets that come again":    with(fast, Fault{Kind: Reset, Share: 0.7, At: time.Second, For: 500 * ms, Period: 2 * time.Second, Until: 6 * time.Second}),
		"down":                      with(fast, f(Fault{Kind: Refuse})),
		"a black hole for some":     with(fast, f(Fault{Kind: BlackHole, Share: 0.3})),
		"a brown-out":               with(busy, f(Fault{Kind: BrownOut, Factor: 0.3, Ramp: time.Second})),
		"slow":                      with(many, f(Fault{Kind: Slow, Factor: 3, Add: 10 * ms, Share: 0.5})),
		"a rate limit":              with(fast, f(Fault{Kind: RateLimit, Limit: Limit{Rate: 20, Burst: 3, Honest: true}})),
		"a restart of one replica":  with(many, f(Fault{Kind: Restart, Replicas: 1, Ramp: time.Second})),
		"a restart":                 with(busy, f(Fault{Kind: Restart})),
		"CoDel in a brown-out":      with(codel, f(Fault{Kind: BrownOut, Factor: 0.2})),
		"an Admission":              with(front, f(Fault{Kind: BrownOut, Factor: 0.3})),
		"several at once":           with(many, f(Fault{Kind: Errors, Status: 503, Share: 0.3}), f(Fault{Kind: LostAnswers, Share: 0.3}), f(Fault{Kind: Reset, Share: 0.2})),
	}
}

// A service that is asked from outside says the same to the same requests at the same
// times as in a run: the same faults strike the same attempts, and take as long.
func TestALiveServiceDecidesAsInARun(t *testing.T) {
	for name, w := range plans() {
		t.Run(name, func(t *testing.T) {
			w.Duration = 8 * time.Second
			r := tries(t, 3, safe(true), attemptTimeout(time.Second))
			w.Fleets = []Fleet{{Clients: 1, Load: Steady(100), Plan: Plan{Steps: []Step{{Edge: Edge{Rules: r, Keyed: true}}}}}}
			for seed := uint64(1); seed <= 3; seed++ {
				sent, all := inRun(t, &w, seed)
				if same := compareLive(t, &w, seed, sent, all); same < len(sent)*2/3 && name != "a black hole for some" {
					t.Errorf("seed %d: only %d of %d attempts were compared", seed, same, len(sent))
				}
			}
		})
	}
}

func compareLive(t *testing.T, w *World, seed uint64, sent []heard, all map[uint64]map[int]heard) (same int) {
	t.Helper()
	l, err := NewLive(w, 0, seed)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint64]map[int]heard{}
	for _, s := range sent {
		l.Ask(s.at, Request{Call: s.call, Keyed: true}, func(r Reply) {
			h := heard{call: s.call, try: r.Try, took: r.At + r.Body - s.at, none: r.Refused}
			if r.Status > 0 && !r.CutBody {
				h.code = fmt.Sprint(r.Status)
			}
			if got[s.call] == nil {
				got[s.call] = map[int]heard{}
			}
			got[s.call][r.Try] = h
		})
	}
	l.Advance(time.Hour)
	for call, attempts := range all {
		for try, want := range attempts {
			if h, ok := got[call][try]; !ok || h != want {
				t.Errorf("seed %d: the run heard\n %v\nand live\n %v", seed, want, h)
				return same
			}
			same++
		}
	}
	return same
}

// A clock that is asked at odd times does not change what happens.
func TestALiveServiceDoesNotMindWhenItIsLookedAt(t *testing.T) {
	w := plans()["several at once"]
	w.Duration = 8 * time.Second
	replies := func(look time.Duration) (all []Reply) {
		l, err := NewLive(&w, 0, 7)
		if err != nil {
			t.Fatal(err)
		}
		from := draw.New(1, 99, 0)
		for at := time.Duration(0); at < 8*time.Second; at += from.Exp(5 * ms) {
			for now := at - 5*ms; look > 0 && now < at; now += look {
				l.Next()
				l.Advance(now)
			}
			l.Ask(at, Request{}, func(r Reply) { all = append(all, r) })
		}
		l.Advance(math.MaxInt64 / 4)
		return all
	}
	if often, never := replies(100*time.Microsecond), replies(0); !slices.Equal(often, never) {
		t.Error("looking changes the replies")
	}
}

func TestALiveServiceLetsGoOfWhoHasGone(t *testing.T) {
	w := World{Duration: time.Hour, Services: []Service{{Workers: 1, Queue: 1000, Time: draw.Constant(time.Second)}}, Faults: []Fault{{Kind: BlackHole, For: time.Minute, Share: 0.5}}}
	l, err := NewLive(&w, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var asked []*Asked
	told, want := 0, 0
	for i := range 1000 {
		asked = append(asked, l.Ask(time.Duration(i), Request{}, func(Reply) { told++ }))
	}
	for _, a := range asked {
		if l.Gone(time.Microsecond, a) {
			want++
		}
		l.Gone(time.Microsecond, a)
	}
	l.Advance(time.Hour)
	if told != want || told == 0 || told == 1000 { // a black hole tells nothing
		t.Errorf("%d replies for callers who have gone, want %d", told, want)
	}
	left := 0
	l.sim.attempts.each(func(*attempt) { left++ })
	l.sim.calls.each(func(*call) { left++ })
	if left+len(l.asks) != 0 {
		t.Errorf("%d attempts and calls are left, and %d who asked", left, len(l.asks))
	}
	if n := l.Work(); n.Silent == 0 || n.Effects+n.Silent != 1000 {
		t.Errorf("%d were swallowed and %d done, of 1000", n.Silent, n.Effects)
	}
}

func TestALiveServiceKeepsSoManyKeys(t *testing.T) {
	w := World{Services: []Service{{Honours: true}}}
	l, err := NewLive(&w, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(call uint64) (effects int) {
		l.Ask(0, Request{Call: call, Keyed: true}, func(r Reply) { effects = r.Try })
		return effects
	}
	for i := range uint64(maxKnown + 10) {
		ask(i + 1)
	}
	if got := ask(maxKnown); got != 2 {
		t.Errorf("a key that is known was asked for the %d. time", got)
	}
	if got := ask(1); got != 1 || l.Forgotten() != 11 {
		t.Errorf("the oldest key was asked for the %d. time, and %d are forgotten", got, l.Forgotten())
	}
	if n := l.Work(); n.Replays != 1 || n.Duplicates != 0 {
		t.Errorf("%d replays and %d duplicates", n.Replays, n.Duplicates)
	}
}
