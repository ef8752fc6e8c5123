package tune

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/policy"
)

// small are scenarios of the library with few clients and short trouble: a run takes milliseconds.
var small = map[string]string{
	"brown-out":   "services:\n  db: {workers: 1, queue: 20, time: lognormal 20ms/100ms, drop_expired: true}\nfaults:\n  - {kind: brown_out, service: db, at: 10s, for: 12s, factor: 0.4}\n",
	"error-storm": "services:\n  db: {workers: 3, queue: 12, time: lognormal 20ms/100ms}\nfaults:\n  - {kind: errors, service: db, at: 10s, for: 8s, share: 80%, status: 503}\n",
	"black-hole":  "services:\n  db: {workers: 4, queue: 16, time: lognormal 20ms/100ms}\nfaults:\n  - {kind: black_hole, service: db, at: 10s, for: 10s}\n",
	"slow":        "services:\n  db: {workers: 4, queue: 16, time: lognormal 30ms/150ms}\nfaults:\n  - {kind: slow, service: db, at: 10s, for: 10s, factor: 10, ramp: 2s}\n",
	"short-blip":  "services:\n  db: {workers: 4, queue: 16, time: lognormal 20ms/100ms}\nfaults:\n  - {kind: down, service: db, at: 10s, for: 2s}\n",
}

func smallWorld(t *testing.T, name string) World {
	t.Helper()
	f, err := scenario.Parse(name, []byte("version: 1\ntitle: "+name+"\nduration: 45s\nwarmup: 3s\n"+
		"clients:\n  shop: {count: 10, rate: 30/s, deadline: 3s, calls: [{to: db, network: exp 2ms, propagate: true}]}\n"+
		"policies:\n  db: {safe: true, timeout: {call: 3s, attempt: 1s, last: off}}\n"+small[name]))
	if err != nil {
		t.Fatal(err)
	}
	return World{File: f, Place: func(p policy.Policy) scenario.Policies { return scenario.Policies{Name: "tuned", Change: Like(p)} }}
}

// drawnFile is a policy that was written without thought.
func drawnFile(seed uint64) string {
	stream := draw.New(seed, 77, 0)
	one := func(of ...string) string { return of[stream.N(len(of))] }
	return "version: 1\ndependencies:\n  db:\n    safe: true\n" +
		"    timeout: {call: 3s" + one("", ", attempt: 60ms", ", attempt: 150ms", ", attempt: 400ms", ", attempt: 1s", ", attempt: 3s") + "}\n" +
		"    retry: " + one("off", "{attempts: 2", "{attempts: 5", "{attempts: 10", "{attempts: 10") + "\n" +
		"    breaker: " + one("off", "{consecutive: 1, consecutive_for: 100ms, open: 20s}", "{failure_rate: 10%, min_calls: 4, open: 30s}", "{failure_rate: 40%, min_calls: 10, open: 5s}", "{failure_rate: 60%, min_calls: 20, open: 15s}") + "\n" +
		one("", "", "    bulkhead: {limit: 1}\n", "    hedge: {max: 2, delay: 5ms}\n", "    hedge: {max: 1, delay: 100ms}\n")
}

// badFile is the next file that was drawn and answers fewer than the defaults in one of the worlds.
func badFile(t *testing.T, seed *uint64, worlds []World) *config.File {
	t.Helper()
	for {
		*seed++
		text := drawnFile(*seed)
		stream := draw.New(*seed, 78, 0)
		more := fmt.Sprintf(", backoff: {base: %s}, budget: %s}\n", []string{"1ms", "20ms", "300ms", "3s"}[stream.N(4)], []string{"off", "{ratio: 1%, reserve: 1, start: 1}", "{ratio: 10%}", "{ratio: 100%}"}[stream.N(4)])
		for _, n := range []string{"2", "5", "10"} {
			text = strings.Replace(text, "retry: {attempts: "+n+"\n", "retry: {attempts: "+n+more, 1)
		}
		f, err := config.Parse("gabion.yaml", []byte(text))
		if err != nil {
			continue // it can't be
		}
		for _, w := range worlds {
			if x := answered(t, w, 3, f.Policies["db"], Defaults(f.Policies["db"])); x[0] < x[1]-1 {
				return f
			}
		}
	}
}

// answered is which share of the calls is answered in time under each policy, in runs that no
// search has seen.
func answered(t *testing.T, w World, runs int, policies ...policy.Policy) (shares []float64) {
	t.Helper()
	for _, p := range policies {
		trial, err := w.File.Trial(w.Place(p), scenario.Variation{})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for r := range runs {
			sample := trial.Run(4711, 1000+r)
			sum += sample.Metric("goodput", "")
		}
		shares = append(shares, 100*sum/float64(runs))
	}
	return shares
}

// What tuning comes to answers as much as the defaults, whatever the file says today, and is in
// no guard worse than the file and than the defaults. With GABION_SOAK=1 they are 20 files in
// three scenarios.
func TestABadFileEndsNoWorseThanTheDefaults(t *testing.T) {
	testrace.Serial(t)
	files, runs := 1, 60
	if os.Getenv("GABION_SOAK") == "1" {
		files, runs = 20, 250
	}
	names := []string{"brown-out", "error-storm", "black-hole"}
	var worlds []World
	for _, name := range names {
		worlds = append(worlds, smallWorld(t, name))
	}
	kept, won, least := 0, 0, 100.0
	seed := uint64(0)
	for range files {
		f := badFile(t, &seed, worlds)
		for i, name := range names {
			guards := []World{smallWorld(t, "slow"), smallWorld(t, "short-blip")}
			for k := range names {
				if k != i {
					guards = append(guards, smallWorld(t, names[k]))
				}
			}
			r, made := tuned(t, f, worlds[i], guards, runs)
			x := answered(t, worlds[i], 30, f.Policies["db"], made, Defaults(made))
			points := x[1] - x[2]
			least = min(least, points)
			t.Logf("file %d in %s: %s, from %s: today %.2f %%, then %.2f %%, the defaults %.2f %%", seed, name, r.Verdict, r.Start, x[0], x[1], x[2])
			if points < -0.5 {
				t.Errorf("file %d in %s: %.2f points of the defaults\n%s", seed, name, points, policyfile.Of(f).YAML(false))
				fail(t, r)
			} else {
				kept++
			}
			if r.Verdict == Win {
				won++
				for _, j := range worse(t, f, made, guards) {
					t.Errorf("file %d in %s: worse in %s: %s %s", seed, name, j.Scenario, j.Label, j.difference())
					fail(t, r)
				}
			}
		}
	}
	t.Logf("%d of %d end at most half a point below the defaults, the least at %+.2f; %d are called a win", kept, files*len(names), least, won)
}

func fail(t *testing.T, r *Result) {
	t.Helper()
	var b strings.Builder
	if err := r.Terminal(&b); err != nil {
		t.Error(err)
	}
	t.Log(b.String())
}

// tuned is what a file's policy is after tuning: as its text says it.
func tuned(t *testing.T, f *config.File, w World, guards []World, runs int) (*Result, policy.Policy) {
	t.Helper()
	dims, _, err := Space(f, "db", nil)
	if err != nil {
		t.Fatal(err)
	}
	goal, err := ParseGoal("")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{
		Worlds: []World{w}, Guards: guards, Config: f, Dependency: "db", Starts: Starts(f, "db", nil, dims), Goal: goal, Validation: 1 << 40, MaxRuns: runs,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Win {
		return r, f.Policies["db"]
	}
	made := changed(f.Policies["db"], r.Changes)
	return r, made
}

// worse are the guards in which a policy is shown to be worse by what counts, in runs that nothing
// has seen.
func worse(t *testing.T, f *config.File, made policy.Policy, guards []World) (all []Judged) {
	t.Helper()
	goal, err := ParseGoal("goodput first")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{starts: []Start{{Policy: f.Policies["db"]}, {Policy: made}}, goal: goal, seed: 99}
	for _, w := range guards {
		rows, err := (&Options{}).guardIn(t.Context(), b, Point{1}, w, 20)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range rows {
			if j.beyond.Low >= j.harm() {
				all = append(all, j)
			}
		}
	}
	return all
}

// What is better in one scenario and worse in another is not called better.
func TestWhatIsWorseInAGuardIsNotBetter(t *testing.T) {
	testrace.Serial(t)
	f, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies:\n  db:\n    safe: true\n    timeout: {call: 3s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	dims, _, err := Space(f, "db", []string{"retry.budget.ratio=30%,100%", "retry.attempts=3,10"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fact    string
		guards  []string
		verdict string
		says    string
	}{
		{"where failures cost nothing, sending again pays", nil, Win, "guards     none"},
		{"where capacity is gone, it floods what is left", []string{"brown-out", "slow"}, Harmful, "WORSE in brown-out: load"},
	} {
		o := Options{
			Worlds: []World{smallWorld(t, "error-storm")}, Config: f, Dependency: "db", Validation: 1 << 40, MaxRuns: 60,
			Starts: Starts(f, "db", []string{"retry.budget.ratio=30%,100%", "retry.attempts=3,10"}, dims)[:1],
		}
		for _, name := range c.guards {
			o.Guards = append(o.Guards, smallWorld(t, name))
		}
		if o.Goal, err = ParseGoal("goodput first"); err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := r.Terminal(&b); err != nil {
			t.Fatal(err)
		}
		better, proposed := strings.Contains(b.String(), "A better file was found"), strings.Contains(b.String(), "Proposed:")
		if r.Verdict != c.verdict || !strings.Contains(b.String(), c.says) || better != (c.verdict == Win) || proposed != better {
			t.Errorf("%s: %s\n%s", c.fact, r.Verdict, b.String())
		}
		if r.Guard != nil && (r.Guard.Scenarios != 1 || len(r.Why) != len(r.Guard.Worse)) {
			t.Errorf("%s: it ends with the first that is worse: %+v", c.fact, r.Guard)
		}
		used := 0.0 // more than all of the time, once the guards begin
		o.Used, o.Progress = func() float64 { return used }, func(p Progress) {
			if strings.HasPrefix(p.Phase, "in ") {
				used = 1.1
			}
		}
		if r, err = Run(t.Context(), o); err != nil || len(c.guards) > 0 && r.Verdict != Unfinished {
			t.Errorf("%s, and there was no time to look: %v %v", c.fact, r.Verdict, err)
		}
	}
}

// The changes that make the file of a start say what is measured.
func TestAFileBecomesWhatWasMeasured(t *testing.T) {
	testrace.Serial(t)
	for seed := range uint64(6) {
		text := strings.NewReplacer("{attempts: 2\n", "{attempts: 2, budget: off}\n", "{attempts: 5\n", "{attempts: 5, backoff: {base: 20ms}}\n", "{attempts: 10\n", "{attempts: 10, budget: {ratio: 1%, reserve: 1}}\n").Replace(drawnFile(seed))
		f, err := config.Parse("gabion.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		dims, _, err := Space(f, "db", nil)
		if err != nil {
			t.Fatal(err)
		}
		starts := Starts(f, "db", nil, dims)
		if got := starts[defaultsAt].Policy.Resolved(); !reflect.DeepEqual(got, Defaults(f.Policies["db"]).Resolved()) {
			t.Errorf("the defaults became\n%v\n%s", got, text)
		}
		for _, s := range starts[1:] {
			if call := s.Policy.Resolved().Timeout.Call; call != 3*time.Second || !s.Policy.Safe {
				t.Errorf("%s: a call may take %v", s.Name, call)
			}
			var edits []policyfile.Change
			for _, c := range s.Changes {
				edits = append(edits, policyfile.Change{Dependency: "db", Path: c.Path, Value: c.To})
			}
			made, err := policyfile.Edit("gabion.yaml", []byte(text), edits)
			if err != nil {
				t.Errorf("%s: %v\n%s", s.Name, err, text)
				continue
			}
			after, err := config.Parse("gabion.yaml", made)
			if err != nil || !reflect.DeepEqual(after.Policies["db"].Resolved(), s.Policy.Resolved()) {
				t.Errorf("%s: %v\n%s\n%s", s.Name, err, text, made)
			}
		}
	}
}
