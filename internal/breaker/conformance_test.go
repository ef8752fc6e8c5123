package breaker

import (
	"math"
	"testing"
	"time"
)

// The rules most cases start from.
func last(n, least int, share float64) Rules {
	return Rules{WindowCalls: n, MinCalls: least, FailureRate: share, Open: 5 * time.Second, Probes: 1}
}

func timed(least int, share float64) Rules {
	return Rules{Window: 10 * time.Second, MinCalls: least, FailureRate: share, Open: 5 * time.Second, Probes: 1}
}

func (r Rules) with(change func(*Rules)) Rules { change(&r); return r }

func slowly(r *Rules) { r.SlowCall, r.SlowRate = 4*time.Second, 0.5 }

func probing(n int) Rules { return timed(5, 0.5).with(func(r *Rules) { r.Probes = n }) }

func strict(close, reopen int) Rules {
	return probing(4).with(func(r *Rules) { r.CloseAfter, r.ReopenAfter = close, reopen })
}

var runs = consecutive(9)

func openCalls8(r *Rules) { r.OpenCalls = 8 }

func observing(r *Rules) { r.Observe = true }

func limited(r *Rules) { r.ProbeTimeout = time.Second }

func grown(r *Rules) { r.OpenGrowth = 1.5 }

func consecutive(n int) Rules {
	return Rules{Window: time.Minute, Consecutive: n, Open: 5 * time.Second}
}

var cases = []struct {
	name   string
	rules  Rules
	script string
}{
	// A. Windows and thresholds
	{"C1 time: 40 % stays closed, the next failure opens", timed(5, 0.5), "S*3 F*2 is=closed rate=0.4 F is=open cause=failure_rate of=6/3/0 moves=1"},
	{"C1 calls: 40 % stays closed, the next failure opens", last(10, 5, 0.5), "S*3 F*2 is=closed rate=0.4 F is=open of=6/3/0 moves=1"},
	{"C2 time: the success that reaches the minimum opens", timed(5, 0.5), "F*3 S is=closed S is=open of=5/3/0"},
	{"C2 calls: the success that reaches the minimum opens", last(10, 5, 0.5), "F*3 S is=closed S is=open of=5/3/0"},
	{"C2: a success after old ones left opens", timed(2, 0.5), "S*9 +5s F*4 is=closed rate=0.3076923076923077 +5s S is=open of=5/4/0"},
	{"C3: below the minimum the rates are unknown", timed(5, 0.5), "F*4 is=closed rate=-1 slowrate=-1"},
	{"C4: the oldest outcome leaves first", last(5, 5, 0.6), "F*2 S*4 F*2 is=closed rate=0.4 calls=5 F is=open of=5/3/0"},
	{"C5 alt: a minimum beyond the window is the window", last(10, 100, 0.5), "F*9 is=closed F is=open"},
	{"C6: 100 % means all", last(4, 4, 1), "F*3 S is=closed F is=closed"},
	{"C6: all fail", last(4, 4, 1), "F*3 is=closed F is=open"},
	{"C7 time: exactly half opens", timed(50, 0.5), "S*25 F*24 is=closed F is=open of=50/25/0"},
	{"C7 calls: exactly half opens", last(50, 50, 0.5), "S*25 F*24 is=closed F is=open of=50/25/0"},
	{"C7: a tenth is a tenth in floating point too", timed(30, 0.1), "S*27 F*2 is=closed F is=open of=30/3/0"},
	{"T5: 99 of 200 are not half", timed(200, 0.5), "S*101 F*99 is=closed rate=0.495"},
	{"C8: after a year of idleness one call counts", timed(1, 0.9), "S*9 F*5 +8760h S calls=1 failures=0 rate=0"},
	{"T11: an idle window forgets without being written to", timed(1, 0.9), "S*9 F*5 calls=14 +10s calls=0 rate=-1"},
	{"T15: old successes don't outvote an outage", timed(5, 0.5), "S*10000 +10s F*5 is=open"},
	{"C11: an hour back is now", timed(5, 0.5), "S*3 -1h F*2 calls=5 failures=2 is=closed F is=open of=6/3/0"},
	{"C11: an hour forward is an empty window", timed(5, 0.5), "F*4 +1h F calls=1 is=closed"},
	{"failures in the window need no minimum", timed(100, 0.5).with(func(r *Rules) { r.Failures = 3 }), "S*9 F*2 is=closed F is=open cause=failures over=failures of=12/3/0"},
	{"a rule that is off never trips", Rules{Window: time.Second}, "F1h*99 is=closed"},

	// B. Slow calls
	{"C14 time", timed(5, 0.5).with(slowly), "F5s S5s F0.1s S0.1s is=closed S5s is=open cause=slow_rate of=5/2/3"},
	{"C14 calls", last(10, 5, 0.5).with(slowly), "F5s S5s F0.1s S0.1s is=closed S5s is=open cause=slow_rate of=5/2/3"},
	{"C15: the limit itself is not slow", timed(5, 0.5).with(slowly), "S4s*9 slow=0 S4.001s slow=1"},
	{"C16: two broken rules are one move", timed(5, 0.5).with(slowly), "F5s*4 is=closed F5s is=open moves=1 cause=failure_rate over=failure_rate,slow_rate"},
	{"C16: all four", timed(5, 0.5).with(slowly).with(func(r *Rules) { r.Failures, r.Consecutive = 5, 5 }), "F5s*5 moves=1 over=failure_rate,slow_rate,failures,consecutive"},
	{"slow calls don't count without a slow rate", timed(1, 0.5).with(func(r *Rules) { r.SlowCall = 1 }), "S1h*9 is=closed"},
	{"time going back makes nothing slow", timed(1, 0.5).with(slowly), "a:x -1h x:S slow=0 is=closed"},
	{"C17: calls in flight grow slow", ageing, "a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8 a:9 a:10 +1.999s is=closed +1ms is=open late=0s cause=slow_rate of=10/0/10 1:S is=open"},
	{"C17: found late, dated when it fell due", ageing, "a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8 a:9 +1s a:10 +4s no=3s late=2s is=open until=3s"},
	{"C17: below the minimum nothing happens", ageing, "a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8 a:9 +1h is=closed S is=open"},
	{"C17: a call that ended is not counted twice", ageing, "a:1 S*7 +3s 1:S calls=8 slow=1"},
	{"C17: a call that ended ages no more", ageing, "a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8 a:9 a:10 1:I 2:I 1:S +1h is=closed calls=0"},

	// C. Open
	{"C18: refuses, counts refusals, then probes", timed(1, 0.5), "F no +3s no refused=2 calls=1 +3s a:x is=half_open refused=0 calls=0 cause=cooldown_over late=1s"},
	{"C19: admits at the deadline", timed(1, 0.5), "F +4.999999999s no=1ns +1ns a:x"},
	{"C20: grows with each open, and a close resets it", timed(1, 0.5).with(grown), "F until=5s +5s F opens=2 +6s no=1.5s +1.5s a:x x:F until=11.25s +12s S is=closed opens=0 F until=5s"},
	{"C20: the cap holds", timed(1, 0.5).with(grown).with(func(r *Rules) { r.OpenMax = 6 * time.Second }), "F +5s F until=6s +6s F until=6s"},
	{"C20: the cap holds with jitter", timed(1, 0.5).with(func(r *Rules) { r.OpenMax, r.OpenJitter = 5*time.Second, 1e9 }), "F until=5s"},
	{"C21, C22: a call that ends late changes nothing", timed(3, 0.5), "a:x a:y a:z F*3 moves=1 +1s x:F y:S z:I until=4s moves=1 calls=3 is=open"},
	{"C23: says when to come back", timed(1, 0.5).with(func(r *Rules) { r.Open = 30 * time.Second }), "F +10s no=20s"},
	{"C24: a huge open time saturates", timed(1, 0.5).with(func(r *Rules) { r.Open = math.MaxInt64 }).with(grown), "+1h F until=never no=0s +100000h no half a:x x:F until=never"},
	{"C24: a huge growth saturates", timed(1, 0.5).with(func(r *Rules) { r.OpenGrowth = 1e300 }), "F +5s F until=never"},
	{"C25: refusals are not in the window", timed(1, 0.5), "F no*9 calls=1 refused=9 moves=1"},
	{"F4: the dependency's own time counts when it is longer", timed(1, 0.5), "F@9s until=9s"},
	{"F4: and does not shorten", timed(1, 0.5), "F@1s until=5s"},
	{"F4: and stays under the cap", timed(1, 0.5).with(func(r *Rules) { r.OpenMax = 7 * time.Second }), "F@9s until=7s"},
	{"F4: also for a probe", timed(1, 0.5), "F +5s F@9s until=9s"},

	// D. Half-open
	{"C27: so many probes at once", probing(4), "trip +5s a:1 a:2 a:3 a:4 no no out=4 1:I a:5 no 2:F 3:F 4:F 5:F is=open +5s a:1 a:2 a:3 a:4 no"},
	{"C28: three of four fail", probing(4), "trip +5s F*2 S is=half_open F is=open cause=probe_failed of=4/3/0 over=failure_rate"},
	{"C28: one of four fails", probing(4), "trip +5s F S*3 is=closed cause=probes_passed of=4/1/0 calls=0 S calls=1"},
	{"C29: slow probes re-open", probing(4).with(slowly), "trip +5s S5s*3 S1s is=open of=4/0/3 over=slow_rate"},
	{"C30: a neutral last probe gives its place back", probing(2), "trip +5s a:1 a:2 no 1:S 2:I is=half_open out=0 a:3 3:S is=closed"},
	{"C31, C32: neutral for ever, and nothing wedges", probing(1), "trip +5s I*1000 is=half_open out=0 S is=closed"},
	{"C33: a hung probe re-opens", probing(1).with(limited), "trip +5s a:x +0.999s no=1ms +1ms is=open cause=probe_expired late=0s until=5s x:S is=open"},
	{"C33: found late, dated when it fell due", probing(1).with(limited), "trip +5s a:x +3s is=open late=2s until=3s no=3s"},
	{"C33: found by a call", probing(1).with(limited), "trip +5s a:x +3s no=3s moves=3"},
	{"C33: found so late that it probes again", probing(1).with(limited), "trip +5s a:x +6s a:y moves=4 late=0s cause=cooldown_over x:F is=half_open y:S is=closed"},
	{"C33: one hung of three is found by who looks", probing(3).with(limited), "trip +5s a:x +1s is=open"},
	{"C33: calls look only when no place is left", probing(3).with(limited), "trip +5s a:x +1s S*2 no"},
	{"C33: expiry may close", probing(1).with(limited).with(func(r *Rules) { r.ExpiryCloses = true }), "trip +5s a:x +2s a:y is=closed late=1s cause=probe_expired x:F calls=0"},
	{"T17, T15: without a limit a hung probe waits, and a reset helps", probing(0), "trip +5s a:x +1000h no=0s is=half_open reset S"},
	{"C34: the verdict falls at the third outcome", probing(10).with(func(r *Rules) { r.ProbeCalls = 3 }), "trip +5s a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8 a:9 a:10 no 1:S 2:S 3:F is=closed 4:F 5:F 6:F 7:F 8:F calls=0 is=closed"},
	{"C34: more outcomes than probes at once", probing(2).with(func(r *Rules) { r.ProbeCalls = 5 }), "trip +5s a:1 a:2 no 1:S a:3 no S*0 2:S a:4 3:S a:5 no 4:S no 5:S is=closed"},
	{"C35: third success closes", strict(3, 2), "trip +5s S F S is=half_open S is=closed"},
	{"C35: second failure opens", strict(3, 2), "trip +5s S F S is=half_open F is=open"},
	{"C35: a slow success is none", strict(3, 0).with(slowly), "trip +5s S5s is=open"},
	{"C36: from closed to half-open", probing(1), "a:x a:y a:z trip +5s a:p x:S y:F z:I is=half_open no out=1 calls=0 p:S is=closed"},
	{"T5: slow successes from before don't close", probing(3), "a:1 a:2 a:3 trip +5s a:p 1:S 2:S 3:S is=half_open p:S is=half_open"},
	{"a probe that is settled twice counts once", probing(2), "trip +5s a:1 1:S 1:F is=half_open calls=1 a:2 no 1:I no 2:S is=closed 2:F calls=0"},
	{"a trackedCall taken over is its new owner's", probing(1), "trip +5s a:1 1:I a:2 1:I no 1:S is=half_open 2:S is=closed"},
	{"a stale permit does not pollute a later closed window", timed(2, 0.5), "a:x F*2 +5s S is=closed x:F calls=0 x:fail calls=0 is=closed"},
	{"half-open twice is two generations", probing(2), "trip +5s a:x a:y x:F trip +5s y:F calls=0 out=0 S*2 is=closed"},
	{"a failed probe re-opens where only a run is counted", consecutive(5), "F*5 is=open +5s F is=open +5s S is=closed"},
	{"failures that don't count don't re-open", Rules{Window: 1, SlowCall: 1, SlowRate: 1, MinCalls: 1}, "trip F is=closed"},

	// Results that live on after their verdict
	{"a broken body turns its success into a failure", timed(3, 0.5), "S*2 a:x x:open calls=3 failures=0 x:fail calls=3 failures=1 is=closed"},
	{"answers that are all cut open it", timed(4, 0.5), "a:1 a:2 a:3 a:4 1:open 2:open 3:open 1:fail 2:fail 3:fail is=closed 4:open is=open of=4/3/0"},
	{"one failure of a slow answer is still slow", timed(9, 0.5).with(slowly), "a:x x:open5s calls=1 slow=1 x:fail calls=1 failures=1 slow=1 +9s slow=1"},
	{"it fails when it breaks, and not when it began", timed(9, 0.5), "a:x x:open +9s x:fail calls=1 +3s calls=1 failures=1 +7s calls=0"},
	{"a success that the window forgot is a failure by itself", timed(9, 0.5), "a:x x:open +1h S x:fail calls=2 failures=1"},
	{"a neutral verdict counts when its body breaks", timed(9, 0.5), "a:x x:I x:fail calls=1 failures=1"},
	{"in a count window it keeps its place", last(3, 3, 0.9), "a:x x:open S x:fail calls=2 failures=1 S*2 failures=0"},
	{"a count window that forgot it gets another", last(2, 2, 0.9), "a:x x:open S*2 x:fail calls=2 failures=1"},
	{"a broken body of a probe is a failed probe", probing(2), "trip +5s a:x a:y x:open x:fail is=half_open calls=1 failures=1 y:S is=open"},
	{"headers alone close nothing: a probe is good when its body came whole", probing(1), "trip +5s a:x x:open is=half_open out=1 calls=0 no x:whole is=closed cause=probes_passed of=1/0/0"},
	{"a probe whose body is cut re-opens", probing(1), "trip +5s a:x x:open x:fail is=open cause=probe_failed of=1/1/0"},
	{"a probe that goes on for the probe's time is good", probing(1).with(limited), "trip +5s a:x +0.9s x:open +0.999s is=half_open no=1ms +1ms is=closed late=0s cause=probes_passed x:fail calls=0 is=closed"},
	{"found late, a probe that went on is dated when it was good", probing(1).with(limited), "trip +5s a:x x:open +3s S is=closed late=2s"},
	{"of two probes that are due at once the answered one decides", probing(2).with(limited).with(func(r *Rules) { r.ProbeCalls = 1 }), "trip +5s a:x a:y y:open +1s is=closed"},
	{"and one that was answered does not excuse one that hangs", probing(2).with(limited), "trip +5s a:x a:y y:open +1s is=open cause=probe_expired"},
	{"a probe that went on and breaks after all is a failed one", probing(2), "trip +5s a:x a:y x:open x:whole calls=1 x:fail is=half_open calls=1 failures=1 y:S is=open"},
	{"a probe that lives on is heard once", probing(2), "trip +5s a:x a:y x:open x:open x:F x:I x:S out=2 calls=0 x:whole x:whole calls=1 y:S is=closed"},
	{"a slow answer of a probe is slow when its body ended", probing(1).with(slowly), "trip +5s a:x x:open5s slow=0 x:whole is=open over=slow_rate"},
	{"a probe's body that breaks once the breaker moved says nothing", probing(2).with(func(r *Rules) { r.ProbeCalls = 1 }), "trip +5s a:x a:y x:open y:S is=closed x:fail calls=0 is=closed"},
	{"a reset lets go of a probe's body", probing(1), "trip +5s a:x x:open reset x:fail x:whole calls=0 is=closed"},
	{"a slow probe is bad once", strict(3, 2).with(slowly), "trip +5s a:x x:open5s x:fail is=half_open F is=open"},
	{"a probe that broke after it was good is bad", strict(3, 2).with(slowly), "trip +5s a:x x:open x:whole x:fail is=half_open F is=open"},
	{"and bad once if it was slow, too", strict(3, 2).with(slowly), "trip +5s a:x x:open5s x:whole x:fail is=half_open F is=open"},
	{"a body of before a reset says nothing", timed(1, 0.5), "a:x x:open reset x:fail calls=0 is=closed"},
	{"answers that are all cut are failures in a run", consecutive(3), "a:1 1:open a:2 2:open 1:fail a:3 3:open 2:fail is=closed 3:fail is=open cause=consecutive"},
	{"a body that comes whole ends the run", consecutive(3), "F*2 a:x x:open x:whole F*2 is=closed F is=open"},
	{"a stream that goes on does not end the run", consecutive(3), "F*2 a:x x:open F is=open"},

	// E. Special states
	{"C39: forced open knows no time", timed(1, 0.5), "a:x force no=0s +1000h no until=never x:F calls=0 is=forced_open moves=1 cause=forced"},
	{"C40: forced open for two hours", timed(1, 0.5), "force=2h +1h no=1h0m0s +1h1s a:x is=half_open late=1s x:S is=closed"},
	{"C41: disabled counts nothing and says nothing", timed(1, 0.5), "disable F9h*50 is=disabled calls=0 moves=1 disable moves=1"},
	{"C42: observe-only says once", timed(5, 0.5), "observe moves=1 F*10 is=observe_only moves=2 cause=failure_rate of=5/5/0 calls=10"},
	{"C42: and again after it was mended", timed(5, 0.5), "observe F*5 moves=2 S*5 moves=2 S F moves=3 S*9 moves=3 +20s S F*5 moves=4"},
	{"C42: mended and broken again within one bucket", timed(4, 0.5), "observe S*4 F*4 moves=2 S F moves=3"},
	{"C42: each rule for itself", timed(5, 0.5).with(slowly), "observe F*5 moves=2 S5s*3 moves=2 S5s*2 moves=3 over=slow_rate"},
	{"C42: a run", consecutive(3), "observe F*5 moves=2 S F*2 moves=2 F moves=3 over=consecutive"},
	{"C43: closed can't be half-opened by hand", timed(1, 0.5), "half! moves=0 disable half! observe half! trip half moves=4 half! is=half_open S is=closed"},
	{"C43: reset from closed", timed(5, 0.5), "F*4 reset is=closed calls=0 moves=1 cause=reset"},
	{"C43: reset from open", timed(1, 0.5), "F no reset is=closed calls=0 refused=0 moves=2 opens=0"},
	{"C43: reset from half-open", timed(1, 0.5), "F +5s a:x reset is=closed out=0 x:F calls=0 moves=3"},
	{"C43: reset from forced open", timed(1, 0.5), "force reset is=closed moves=2"},
	{"C43: reset from disabled", timed(1, 0.5), "disable reset is=closed moves=2"},
	{"C43: reset from observe-only", timed(1, 0.5), "observe F reset is=closed calls=0"},
	{"C43: a run starts anew", consecutive(3), "F*2 reset F*2 is=closed F is=open"},
	{"C43: a count window starts anew", last(5, 5, 0.5), "F*4 reset F*4 is=closed calls=4"},
	{"C44: released when both are", timed(1, 0.5), "iso:x iso:y no=0s rel:x no rel:x no is=forced_open rel:y is=closed cause=released rel:y moves=2 S"},
	{"C44: back to what a hand had set", timed(1, 0.5), "observe iso:x rel:x is=observe_only disable iso:x rel:x is=disabled force=2h iso:y until=never rel:y until=2h0m0s"},
	{"C44: out of open it closes", timed(1, 0.5), "F iso:x rel:x is=closed"},
	{"C44: what a hand sets in an isolation holds after it", timed(1, 0.5), "iso:x disable no is=forced_open rel:x is=disabled moves=2"},
	{"C44: and its time goes on", timed(1, 0.5), "iso:x force=1s +2s no is=forced_open rel:x S is=closed"},
	{"C44: the last of several counts", timed(1, 0.5), "iso:x force observe=1h disable=2h no rel:x is=disabled until=2h0m0s"},
	{"C44: an isolated breaker can't be half-opened or tripped", timed(1, 0.5), "F iso:x half! trip +1h no is=forced_open rel:x is=closed"},
	{"C44: a reset ends isolation", timed(1, 0.5), "iso:x reset S rel:x is=closed moves=2"},
	{"C44: a zero isolation holds nothing", timed(1, 0.5), "rel:x iso:y rel:x is=forced_open"},
	{"tripped by hand it waits for the open time, whatever is refused", probing(2).with(openCalls8), "trip no*99 is=open +4.999s no=1ms +1ms a:x no*2 a:y is=half_open"},
	{"a probe that fails after that counts refusals as usual", probing(1).with(openCalls8), "trip +5s F is=open no*3 a:x x:F is=open cause=probe_failed opens=3"},
	{"opened by its rules it probes sooner", probing(1).with(openCalls8), "F*5 no*2 a:x is=half_open cause=calls_refused"},
	{"tripped while it was open it waits for what is left", probing(1).with(openCalls8), "F*5 +1s no*2 trip until=4s moves=1 no*99 is=open +4s S is=closed"},
	{"tripped in half-open it waits anew", probing(1).with(openCalls8), "F*5 no*2 a:x trip no*99 until=5s x:S is=open"},
	{"disabled until a time, then closed with nothing counted", timed(1, 0.5), "disable=2h until=2h0m0s F*9 +1h59m F is=disabled +1m F moves=3 is=open"},
	{"disabled until a time, and nobody asks: a look ends it", timed(1, 0.5), "S*3 disable=2h +3h is=closed calls=0 cause=override_over late=1h0m0s moves=2"},
	{"observing until a time, then it opens again", timed(1, 0.5), "observe=2h until=2h0m0s F*9 is=observe_only calls=9 +2h S moves=3 is=closed calls=1 F is=open"},
	{"a call ends what was disabled, and counts", timed(1, 0.6), "disable=1s +1s S moves=2 is=closed calls=1"},
	{"another end takes the place of the first", timed(1, 0.5), "disable=1h disable=3h moves=2 until=3h0m0s +2h is=disabled +1h is=closed"},
	{"an end takes the place of none, and none of an end", timed(1, 0.5), "observe=1h observe moves=2 until=never +2h is=observe_only observe=1h until=1h0m0s +1h is=closed"},
	{"the same end again changes nothing", timed(1, 0.9), "observe=1h S*3 observe=1h calls=3 moves=1"},
	{"rules that observe: the end observes, without end", timed(1, 0.5).with(observing), "disable=1h +1h S is=observe_only until=never moves=2 cause=override_over observe=1h F +1h is=observe_only calls=0 until=never"},
	{"a hand finds what has ended, ended", timed(1, 0.5), "disable=1h +2h half! is=closed disable=1h +2h trip is=open moves=5"},
	{"an isolation keeps the end", timed(1, 0.5), "disable=1h iso:x until=never rel:x is=disabled until=1h0m0s iso:x +2h is=forced_open rel:x is=closed moves=6"},
	{"reset ends it at once", timed(1, 0.5), "observe=1h reset is=closed +2h S moves=2"},
	{"trip moves from where calls are admitted", timed(1, 0.5), "trip trip moves=1 until=5s reset observe trip is=open reset disable trip is=open force trip is=forced_open"},

	// F. Consecutive
	{"C48: a success breaks the run", consecutive(3), "F*2 S F*2 is=closed F is=open cause=consecutive"},
	{"C48: a neutral does not", consecutive(3), "F*2 I F is=open"},
	{"calls that were out at once are a run that does not last", runs, "a:1 a:2 +5ms 1:F run=1 +1ms 2:F run=2 +1ms a:3 +6ms 3:F run=3+ S run=0"},
	{"a slow failure after a quick one may have begun with it", runs, "a:1 +1ms 1:F a:2 +1h 2:F run=2 a:3 +1ms 3:F run=3+"},
	{"a run is kept where the rules ask for it", timed(9, 0.5).with(func(r *Rules) { r.CountRun = true }), "F*3 run=3 is=closed"},
	{"and nowhere else", timed(9, 0.5), "F*3 run=0"},
	{"an open breaker has no run", consecutive(3), "F*3 is=open run=0"},
	{"C48: in a count window too", consecutive(3).with(func(r *Rules) { r.WindowCalls = 2 }), "F*2 S F*2 is=closed F is=open"},
}

var ageing = Rules{
	Window: 10 * time.Second, MinCalls: 10, SlowCall: 2 * time.Second, SlowRate: 0.5,
	InFlight: true, Open: 5 * time.Second,
}

func TestConformance(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { play(t, c.rules, c.script) })
	}
}
