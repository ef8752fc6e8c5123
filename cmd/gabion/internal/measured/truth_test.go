package measured

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
)

// A world is a dependency whose latency is known: the share of attempts that take longer than d
// where the recording stands, from 0 at its beginning to 1 at its end.
type world struct {
	name   string
	draw   func(r *rand.Rand, at float64) float64 // seconds
	beyond func(d, at float64) float64
}

func normalBeyond(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// lognormal is of a median, of how wide it is, and of how much slower it is at the end.
func lognormal(median, width, drift float64) world {
	return world{
		"lognormal",
		func(r *rand.Rand, at float64) float64 {
			return median * math.Pow(drift, at) * math.Exp(width*r.NormFloat64())
		},
		func(d, at float64) float64 { return normalBeyond(math.Log(d/(median*math.Pow(drift, at))) / width) },
	}
}

// pareto has a tail: beyond the least, the share falls with a power of the time.
func pareto(least, power float64) world {
	return world{
		"a Pareto tail",
		func(r *rand.Rand, _ float64) float64 { return least * math.Pow(1-r.Float64(), -1/power) },
		func(d, _ float64) float64 { return min(1, math.Pow(least/d, power)) },
	}
}

// mixed has a share of attempts of another kind.
func mixed(name string, one, other world, share func(at float64) float64) world {
	return world{
		name,
		func(r *rand.Rand, at float64) float64 {
			if r.Float64() < share(at) {
				return other.draw(r, at)
			}
			return one.draw(r, at)
		},
		func(d, at float64) float64 {
			return (1-share(at))*one.beyond(d, at) + share(at)*other.beyond(d, at)
		},
	}
}

// worlds draws one of six kinds, from fast to so slow that nothing shorter is right.
func worlds(kind int, r *rand.Rand) world {
	median := 0.001 * math.Pow(3000, r.Float64()) // 1 ms to 3 s
	usual := lognormal(median, 0.2+0.8*r.Float64(), 1)
	switch kind % 6 {
	case 0:
		return usual
	case 1:
		return pareto(median, 1.2+2*r.Float64())
	case 2:
		share := 0.0005 * math.Pow(400, r.Float64()) // 0.05 % to 20 %
		return mixed("two humps", usual, lognormal(median*(5+20*r.Float64()), 0.3, 1), func(float64) float64 { return share })
	case 3:
		w := lognormal(median, 0.2+0.6*r.Float64(), 1+3*r.Float64())
		w.name = "drift"
		return w
	case 4:
		from, slower := r.Float64()*0.8, 3+20*r.Float64()
		return mixed("an incident", usual, lognormal(median*slower, 0.5, 1), func(at float64) float64 {
			if at >= from && at < from+0.1 {
				return 1
			}
			return 0
		})
	}
	w := lognormal(median, 0.5+r.Float64(), 1)
	w.name = "cut off"
	return w
}

// tape is a recording of calls that have one attempt each, under a timeout.
func (w *world) recording(r *rand.Rand, calls int, timeout time.Duration) iter.Seq2[recording.Entry, error] {
	broken := 0
	if r.IntN(4) == 0 { // errors as well, up to 2 %
		broken = r.IntN(1 + calls/50)
	}
	return func(yield func(recording.Entry, error) bool) {
		for i := range calls {
			at := policy.Instant(i) * policy.Instant(20*time.Millisecond)
			e := policy.Event{Kind: policy.KindAttemptSent, Dependency: "stock", At: at, Attempt: 1, Call: uint64(i)}
			took := time.Duration(w.draw(r, float64(i)/float64(calls)) * float64(time.Second))
			end := e
			end.Kind, end.Took, end.Class = policy.KindAttemptSettled, took, policy.ClassSuccess
			ret := e
			ret.Kind = policy.KindReturned
			switch {
			case took > timeout:
				end.Took, end.Class, end.Reason, ret.Reason = timeout, policy.ClassNetwork, policy.AttemptTimeout, policy.AttemptsExhausted
			case r.IntN(calls) < broken:
				end.Class, ret.Reason = policy.ClassNetwork, policy.AttemptsExhausted
			}
			for _, e := range []policy.Event{e, end, ret} {
				if !yield(recording.Entry{Event: e}, nil) {
					return
				}
			}
		}
	}
}

// Over a thousand recordings whose truth is known, of 200 to 8,000 calls: of the attempts that
// would succeed, a proposed timeout cuts off less than one in a thousand on average; a file with the
// proposal has no finding that it did not have before, and nothing else is proposed for it.
func TestAThousandRecordingsWithKnownTruth(t *testing.T) {
	const recordings = 1000
	type sum struct {
		n, proposed, shorter int
		cut, worst           float64
	}
	sums := map[string]*sum{}
	var all sum
	for i := range recordings {
		r := rand.New(rand.NewPCG(28, uint64(i)))
		w := worlds(i, r)
		timeouts := []time.Duration{9 * time.Second, 14 * time.Second, 30 * time.Second, 55 * time.Second}
		timeout := timeouts[r.IntN(len(timeouts))]
		if w.name == "cut off" { // between the median and beyond what all take
			timeout = time.Duration(w.draw(r, 0)*math.Pow(30, r.Float64())*1e3+20) * time.Millisecond
			timeout = min(timeout, 55*time.Second)
		}
		call := max(timeout+timeout/20, 15*time.Second)
		text := []byte(fmt.Sprintf("version: 1\ndependencies:\n  stock: {safe: true, timeout: {call: %s, attempt: %s}}\n", policy.FormatDuration(call), policy.FormatDuration(timeout)))
		measured, _, err := readRecording(w.recording(r, 200*int(math.Pow(40, r.Float64())), timeout))
		if err != nil {
			t.Fatal(err)
		}
		s := &Source{all: measured}
		before := look(t, s, text)
		k := sums[w.name]
		if k == nil {
			k = &sum{}
			sums[w.name] = k
		}
		k.n, all.n = k.n+1, all.n+1
		after := text
		for n := 0; ; n++ {
			found := look(t, s, after)
			at := slices.IndexFunc(found, func(f lint.Finding) bool { return len(f.Fix) > 0 })
			if at < 0 {
				for _, f := range found {
					if !had(before, f) {
						t.Errorf("recording %d, %s: the proposals lead to %v", i, w.name, f)
					}
				}
				break
			}
			if after, err = policyfile.Edit("gabion.yaml", after, found[at].Fix); err != nil || n > 5 {
				t.Fatalf("recording %d, %s: %v is proposed again and again: %v", i, w.name, found[at].Fix, err)
			}
		}
		is, _ := config.Read("gabion.yaml", after)
		to := is.Policies["stock"].Timeout.Attempt
		if to == timeout {
			continue
		}
		k.proposed, all.proposed = k.proposed+1, all.proposed+1
		if to >= timeout {
			continue
		}
		cut := w.beyond(to.Seconds(), 1)
		if w.name == "an incident" { // what was seen, in whatever part of it
			cut = 0
			for part := range 100 {
				cut += w.beyond(to.Seconds(), float64(part)/100) / 100
			}
		}
		for _, s := range []*sum{k, &all} {
			s.shorter, s.cut, s.worst = s.shorter+1, s.cut+cut, max(s.worst, cut)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		k := sums[name]
		t.Logf("%-14s %4d recordings, %3d proposals, %3d shorter: %.4f of 1,000 cut off, at worst %.2f",
			name, k.n, k.proposed, k.shorter, 1000*k.cut/float64(max(k.shorter, 1)), 1000*k.worst)
	}
	mean := all.cut / float64(max(all.shorter, 1))
	t.Logf("all: %d proposals, %d shorter: %.4f of 1,000 cut off, at worst %.2f", all.proposed, all.shorter, 1000*mean, 1000*all.worst)
	if mean > 0.001 || all.worst > 0.001 || all.shorter < 100 || all.proposed-all.shorter < 20 {
		t.Errorf("of 1,000 attempts that would succeed %.2f are cut off by %d shorter timeouts, and %d longer ones are proposed", 1000*mean, all.shorter, all.proposed-all.shorter)
	}
}

func had(before []lint.Finding, f lint.Finding) bool {
	for _, b := range before {
		if b.Rule.ID == f.Rule.ID && b.Path == f.Path && b.Severity >= f.Severity {
			return true
		}
	}
	return false
}
