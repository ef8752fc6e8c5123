package breaker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// A rig plays scripts, words separated by blanks, in virtual time:
//
//	+5s -1h         time passes, or jumps back
//	S F I           a call that is good, bad, neutral; S5s took 5 s; F*3 three; F@9s asked for 9 s
//	a:x x:S x:F5s   call x is admitted; it ends
//	x:open x:open5s x:fail x:whole   its result lives on; it breaks after all; it comes whole
//	no no=20s       a call is refused; and told to come back in 20 s
//	is=open …=…     what the snapshot or the newest change says
//	reset trip disable observe force force=2h (so the two before) half half! iso:x rel:x   by hand; half! is refused
type rig struct {
	t       *testing.T
	b       *Breaker
	now     clock.Instant
	log     changes
	permits map[string]Permit
	open    map[string]Receipt
	held    map[string]Isolation
}

type changes []Change

func (c *changes) BreakerMoved(m Change) { *c = append(*c, m) }

func play(t *testing.T, r Rules, script string) *rig {
	t.Helper()
	g := &rig{t: t, now: -7, permits: map[string]Permit{}, open: map[string]Receipt{}, held: map[string]Isolation{}}
	g.b = New(&r, 1, 1, &g.log)
	g.more(script)
	return g
}

func (g *rig) do(word string) error {
	if n := strings.Index(word, "*"); n > 0 {
		times, _ := strconv.Atoi(word[n+1:])
		for range times {
			if err := g.do(word[:n]); err != nil {
				return err
			}
		}
		return nil
	}
	if word[0] == '+' || word[0] == '-' {
		d, err := time.ParseDuration(word)
		g.now = g.now.Add(d)
		return err
	}
	if who, what, ok := strings.Cut(word, ":"); ok {
		return g.named(who, what)
	}
	if what, want, ok := strings.Cut(word, "="); ok && !slices.Contains([]string{"no", "force", "disable", "observe"}, what) {
		if got := g.show(what); got != want {
			return fmt.Errorf("%s is %s, want %s", what, got, want)
		}
		return nil
	}
	return g.plain(word)
}

func (g *rig) named(who, what string) error {
	switch who {
	case "a":
		p, _, ok := g.b.Acquire(g.now, 0)
		if !ok {
			return fmt.Errorf("%s is refused", what)
		}
		g.permits[what] = p
	case "iso":
		g.held[what] = g.b.By("").Isolate(g.now)
	case "rel":
		g.b.By("").Release(g.now, g.held[what])
	default:
		return g.ofCall(who, what)
	}
	return nil
}

func (g *rig) ofCall(who, what string) error {
	p := g.permits[who]
	took, open := strings.CutPrefix(what, "open")
	switch {
	case what == "fail":
		g.b.Fail(g.now, 0, p, g.open[who])
	case what == "whole":
		g.b.Whole(g.now, p)
	case open:
		if d, err := time.ParseDuration(took); err == nil {
			p.start = g.now.Add(-d)
		}
		g.open[who] = g.b.SettleOpen(g.now, 0, p, Good, 0)
	default:
		return g.settle(p, what)
	}
	return nil
}

func (g *rig) plain(word string) error {
	verb, arg, _ := strings.Cut(word, "=")
	switch verb {
	case "no":
		open := refuses(g.b.State())
		shutFor, shut := g.b.Shut(g.now)
		_, wait, ok := g.b.Acquire(g.now, 0)
		if ok || arg != "" && wait.String() != arg {
			return fmt.Errorf("admitted %v, retry after %v, want %v", ok, wait, arg)
		}
		if shut != open || shut && shutFor != wait {
			return fmt.Errorf("shut says %v, %v", shut, shutFor)
		}
	case "reset":
		g.b.By("").Reset(g.now)
	case "trip":
		g.b.By("").Trip(g.now)
	case "disable":
		g.b.By("").Disable(g.now, g.end(arg))
	case "observe":
		g.b.By("").Observe(g.now, g.end(arg))
	case "force":
		g.b.By("").ForceOpen(g.now, g.end(arg))
	case "half":
		return g.b.By("").TryHalfOpen(g.now)
	case "half!":
		if g.b.By("").TryHalfOpen(g.now) == nil {
			return fmt.Errorf("half-opened")
		}
	default:
		_, shut := g.b.Shut(g.now)
		p, _, ok := g.b.Acquire(g.now, 0)
		if !ok || shut {
			return fmt.Errorf("%s: admitted %v, shut %v", word, ok, shut)
		}
		return g.settle(p, word)
	}
	return nil
}

// end is the time that the argument of a hand asks for.
func (g *rig) end(arg string) clock.Instant {
	d, err := time.ParseDuration(arg)
	if err != nil {
		return clock.Never
	}
	return g.now.Add(d)
}

// settle brings home a call whose permit is made older by what it took.
func (g *rig) settle(p Permit, how string) error {
	v := map[byte]Result{'S': Good, 'F': Bad, 'I': Neutral}[how[0]]
	took, after, _ := strings.Cut(how[1:], "@")
	if d, err := time.ParseDuration(took); err == nil {
		p.start = g.now.Add(-d)
	} else if took != "" {
		return fmt.Errorf("what is %s", how)
	}
	d, _ := time.ParseDuration(after)
	g.b.Settle(g.now, 0, p, v, d)
	return nil
}

// show reads one fact of the snapshot, or of the newest change.
func (g *rig) show(what string) string {
	s := g.b.Snapshot(g.now)
	last := Change{Cause: numCauses}
	if len(g.log) > 0 {
		last = g.log[len(g.log)-1]
	}
	switch what {
	case "is":
		return s.State.String()
	case "calls":
		return fmt.Sprint(s.Counts.Calls)
	case "failures":
		return fmt.Sprint(s.Counts.Failures)
	case "slow":
		return fmt.Sprint(s.Counts.Slow)
	case "rate":
		return fmt.Sprint(s.FailureRate)
	case "slowrate":
		return fmt.Sprint(s.SlowRate)
	case "refused":
		return fmt.Sprint(s.Refused)
	case "out":
		return fmt.Sprint(s.Probes)
	case "run":
		n, lasts := g.b.FailureRun()
		if lasts {
			return fmt.Sprint(n, "+")
		}
		return fmt.Sprint(n)
	case "opens":
		return fmt.Sprint(s.Opens)
	case "until":
		if s.Until == clock.Never {
			return "never"
		}
		return s.Until.Sub(g.now).String()
	case "moves":
		return fmt.Sprint(len(g.log))
	case "cause":
		return last.Cause.String()
	case "over":
		var all []string
		for c := range numCauses {
			if last.Exceeded.Has(c) {
				all = append(all, c.String())
			}
		}
		return strings.Join(all, ",")
	case "of":
		return fmt.Sprintf("%d/%d/%d", last.Counts.Calls, last.Counts.Failures, last.Counts.Slow)
	case "late":
		return last.At.Sub(last.Due).String()
	}
	return "what is " + what
}

func (g *rig) more(script string) {
	g.t.Helper()
	for i, word := range strings.Fields(script) {
		if err := g.do(word); err != nil {
			g.t.Fatalf("word %d, %s: %v", i+1, word, err)
		}
	}
}
