package scenario

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

// small is a scenario that says nothing but what it has to.
const small = `version: 1
title: small
duration: 60s
clients:
  shop: {count: 10, rate: 50/s, calls: [{to: db}]}
services:
  db: {workers: 4, queue: 10, time: exp 20ms}
policies:
  db: {safe: true}
faults:
  - {kind: errors, service: db, at: 20s, for: 10s}
assert:
  - amplification(db) <= 1.2 during faults
`

// with changes one line of the small scenario.
func with(t *testing.T, old, new string) string {
	t.Helper()
	if !strings.Contains(small, old) {
		t.Fatalf("the small scenario has no %q", old)
	}
	return strings.Replace(small, old, new, 1)
}

func TestImpossibleValuesAreRefusedWithTheirPlace(t *testing.T) {
	const (
		fleet   = "{count: 10, rate: 50/s, calls: [{to: db}]}"
		service = "{workers: 4, queue: 10, time: exp 20ms}"
		fault   = "{kind: errors, service: db, at: 20s, for: 10s}"
		claim   = "amplification(db) <= 1.2 during faults"
	)
	for _, c := range []struct {
		fact, old, new string
		at             string // line:column of the finding
		says           string
	}{
		{"no version", "version: 1\n", "", "1:1", "version is missing"},
		{"a version of later", "version: 1", "version: 2", "1:10", "version 2 is not known"},
		{"no title", "title: small\n", "", "1:1", "there is no title"},
		{"no duration", "duration: 60s\n", "", "1:1", "there is no duration"},
		{"a bare number", "duration: 60s", "duration: 60", "3:11", "has no unit"},
		{"a negative duration", "duration: 60s", "duration: -60s", "3:11", "is negative"},
		{"off", "duration: 60s", "duration: off", "3:11", "is no duration"},
		{"more than a month", "duration: 60s", "duration: 1000h", "3:11", "is longer than a month"},
		{"a warm-up as long as all", "duration: 60s", "duration: 60s\nwarmup: 60s", "4:9", "warmup is not shorter"},
		{"bins without end", "duration: 60s", "duration: 60s\nbin: 100us", "4:6", "bins are too many"},
		{"trouble that ends before it begins", "duration: 60s", "duration: 60s\nduring: 30s..20s", "4:9", "does not end after it begins"},
		{"a key that is misspelled", "duration: 60s", "duration: 60s\nreplication: 3", "4:1", "did you mean replications?"},
		{"no clients", "  shop: " + fleet, "  {}", "4:1", "there are no clients"},
		{"zero clients", "count: 10", "count: 0", "5:17", "is less than one"},
		{"no load", "rate: 50/s, ", "", "5:3", "rate is missing"},
		{"a rate without a unit", "rate: 50/s", "rate: 50", "5:27", "has no unit"},
		{"no calls", ", calls: [{to: db}]", "", "5:3", "calls is missing"},
		{"a call of an unknown service", "to: db", "to: bd", "5:46", "did you mean db?"},
		{"a quorum above the fan", "{to: db}", "{to: db, fan: 2, quorum: 3}", "5:66", "quorum 3 is more than the fan of 2"},
		{"a share above all", "{to: db}", "{to: db, loss: 150%}", "5:56", "is more than all"},
		{"think in an open loop", "rate: 50/s", "rate: 50/s, think: 1s", "5:40", "think means nothing in an open loop"},
		{"a closed loop without thinking", "rate: 50/s", "loop: closed", "5:3", "think is missing"},
		{"a closed loop that never ends", "rate: 50/s", "loop: closed, think: 1ns", "4:1", "pieces of work are too many"},
		{"a distribution of nothing", "exp 20ms", "gauss 20ms", "7:37", "is not a distribution"},
		{"a mixture of two thirds", "exp 20ms", `"40% 1ms | 20% 2ms"`, "7:37", "shares that do not make 100%"},
		{"a p99 below the median", "exp 20ms", "lognormal 20ms/10ms", "7:37", "a p99 below its median"},
		{"a queue without workers", "workers: 4, queue", "queue", "7:15", "queue means nothing without workers"},
		{"codel without a queue", "queue: 10", "order: codel", "7:27", "order means nothing without a queue"},
		{"an unknown order", "queue: 10", "queue: 10, order: lipo", "7:38", "did you mean lifo?"},
		{"admission without a limit", "queue: 10", "queue: 10, admission: {queue: 3}", "7:31", "admission.limit is missing"},
		{"bounds of a limit that stays", "queue: 10", "queue: 10, admission: {limit: 3, max: 9}", "7:58", "means nothing where the limit is not learned"},
		{"bounds the wrong way round", "queue: 10", "queue: 10, admission: {limit: learned, min: 9, max: 3}", "7:72", "max is less than min"},
		{"a limit that is no number", "queue: 10", "queue: 10, admission: {limit: much}", "7:50", "or write learned"},
		{"a share of what is not shared", "queue: 10", "queue: 10, admission: {limit: 3, tenant_share: 50%}", "7:67", "unless it is fair"},
		{"a target above the interval", "queue: 10", "queue: 10, admission: {limit: 3, target: 2s}", "7:61", "longer than the interval"},
		{"a limit of nothing", "queue: 10", "queue: 10, limit: {burst: 3}", "7:31", "limit.rate is missing"},
		{"a circle", service, "{time: 1ms, calls: [{to: db}]}", "7:3", "db calls itself in the end"},
		{"a policy with a mistake", "db: {safe: true}", "db: {retry: {attempts: many}}", "9:26", "is not a whole number"},
		{"policies on the line of their key", "policies:\n  db: {safe: true}", "policies: {db: {safe: true}}", "8:1", "is not alone on its line"},
		{"an unknown rival", "policies:", "against: absent\npolicies:", "8:10", "is not known"},
		{"a fault of no kind", "kind: errors, ", "", "11:15", "kind is missing"},
		{"a fault of an unknown kind", "kind: errors", "kind: error", "11:12", "did you mean errors?"},
		{"a fault after the load", "at: 20s", "at: 55s", "11:37", "it ends at 1m5s, after the load"},
		{"a fault that never ends", ", for: 10s", "", "11:12", "for is missing"},
		{"a fault nowhere", "service: db, ", "", "11:12", "service is missing"},
		{"a key of another kind", fault, "{kind: down, service: db, at: 20s, for: 10s, factor: 0.5}", "11:58", "factor means nothing for down"},
		{"an unknown status", "for: 10s}", "for: 10s, status: 200}", "11:60", "status 200 is not known"},
		{"a brown-out that adds", fault, "{kind: brown_out, service: db, at: 20s, for: 10s, factor: 2}", "11:63", "leaves less than all"},
		{"a replica too many", fault, "{kind: down, service: db, at: 20s, for: 10s, replicas: 2}", "11:60", "has 1 replicas, not 2"},
		{"a flap that overlaps", "for: 10s}", "for: 10s, every: 5s}", "11:59", "before it is over"},
		{"a ramp longer than the fault", "for: 10s}", "for: 10s, ramp: 8s}", "11:58", "longer than it lasts"},
		{"an unknown metric", claim, "amplifikation(db) <= 1.2", "13:5", "did you mean amplification?"},
		{"a metric of an unknown service", claim, "amplification(bd) <= 1.2", "13:19", "did you mean db?"},
		{"a metric without an operator", claim, "amplification(db) 1.2", "13:23", "compares with nothing known"},
		{"a share without a unit", claim, "goodput >= 99", "13:16", "has no unit"},
		{"a duration without one", claim, "p99 <= 300", "13:12", "has no unit"},
		{"a ratio with one", claim, "amplification(db) <= 1.2s", "13:26", "where a number belongs"},
		{"an unknown phase", claim, "goodput >= 99% soon", "13:20", `has "soon" at its end`},
		{"a phase of the whole run", claim, "recovery <= 30s after", "13:21", "recovery is of the whole run"},
		{"a quantile of a share of runs", claim, "stuck <= 1% p95", "13:17", "has no quantile"},
		{"more after the end", claim, "goodput >= 99% after lunch", "13:26", `has "lunch" at its end`},
		{"in quotes too", claim, `"goodput >= 99% soon"`, "13:21", `has "soon" at its end`},
		{"a phase without trouble", "faults:\n  - " + fault + "\n", "", "11:30", "there is no time of trouble"},
		{"a map of one axis", "assert:", "map: {load: [100%]}\nassert:", "12:1", "map wants load and trigger"},
		{"loads that fall", "rate: 50/s", "rate: 50/s, load: [{at: 20s, rate: 1/s}, {at: 10s, rate: 1/s}]", "5:67", "it begins before 20s"},
		{"a load of two minds", "rate: 50/s", "rate: 50/s, load: [{at: 20s, rate: 1/s, times: 2}]", "5:68", "either rate or times"},
		{"a service that nothing calls", service, service + "\n  cache: {time: 1ms}", "8:3", "nothing calls cache"},
		{"services that only call each other", service, service + "\n  a: {calls: [{to: b}]}\n  b: {time: 1ms}", "8:3", "nothing calls a"},
		{"expired work that can't be known", "queue: 10", "queue: 10, drop_expired: true", "7:45", "no call of it sends its deadline along"},
		{"keys that are not sent", "queue: 10", "queue: 10, honours_keys: true", "7:45", "no call of it has a key"},
		{"a skew without an effect", fault, "{kind: clock_skew, service: db, at: 20s, for: 10s, add: 1s}", "11:12", "clock_skew means nothing while no call of db"},
		{"a crowd of work that takes no time", service, "{workers: 4, crowd: 1%}", "7:27", "crowd means nothing for work that takes no time"},
		{"no time that is slow", service + "\npolicies:\n  db: {safe: true}\nfaults:\n  - " + fault, "{workers: 4}\npolicies:\n  db: {safe: true}\nfaults:\n  - {kind: slow, service: db, at: 20s, for: 10s, factor: 3}", "11:12", "slow means nothing for db"},
		{"a policy that nothing goes by", "  db: {safe: true}", "  db: {safe: true}\n  bd: {safe: true}", "10:3", "did you mean db?"},
		{"a rival's policy that nothing goes by", "assert:", "against:\n  bd: {safe: true}\nassert:", "13:3", `against: nothing goes by the policy "bd"`},
		{"an unknown method", "{to: db}", "{to: db, method: FETCH}", "5:58", "FETCH"},
		{"a method in small letters", "{to: db}", "{to: db, method: post}", "5:58", "did you mean POST?"},
		{"the key that said what production does not ask", "{to: db}", "{to: db, unsafe: true}", "5:50", "unknown key"},
		{"sessions of clients that share", "rate: 50/s", "rate: 50/s, session: 3, shared: 5", "5:42", "session means nothing for clients that share"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			_, err := Parse("x.yaml", []byte(with(t, c.old, c.new)))
			var found Findings
			if !errors.As(err, &found) {
				t.Fatalf("it is taken: %v", err)
			}
			if !strings.Contains(found[0].Error(), c.says) || !strings.HasPrefix(found[0].Error(), "x.yaml:"+c.at+":") {
				t.Errorf("want %s: %s; got\n%v", c.at, c.says, found)
			}
		})
	}
}

func TestTheSmallScenarioRuns(t *testing.T) {
	f, err := Parse("small", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Run(t.Context(), Options{Replications: 8})
	if err != nil {
		t.Fatal(err)
	}
	if s.During != [2]float64{20, 30} || len(s.Sides) != 1 || len(s.Sides[0].Phases) != 3 || len(s.Sides[0].Broken) > 0 {
		t.Errorf("during %v, %d sides, broken %v", s.During, len(s.Sides), s.Sides[0].Broken)
	}
}

func TestDistributionsMeanWhatTheySay(t *testing.T) {
	const ms = time.Millisecond
	for text, want := range map[string]time.Duration{
		"20ms": 20 * ms, "exp 20ms": 20 * ms, "uniform 10ms..30ms": 20 * ms, "exp 20ms + 5ms": 25 * ms,
		"50% 10ms | 50% exp 30ms": 20 * ms, "lognormal 20ms/300ms": draw.LogNormal(20*ms, 300*ms).Mean(),
		"pareto 10ms shape 3": draw.Pareto(10*ms, 3).Mean(), "normal 20ms±5ms": 20 * ms,
	} {
		d, problem, _ := (*files)(nil).dist(text)
		if problem != "" {
			t.Errorf("%s %s", text, problem)
			continue
		}
		if got := d.(dist).Mean(); got < want*97/100 || got > want*103/100 {
			t.Errorf("%s means %v, want %v", text, got, want)
		}
	}
	if d, problem, _ := (*files)(nil).dist("quantiles p50 20ms, p90 50ms, p99 300ms"); problem != "" || d.(dist).Mean() < 25*ms || d.(dist).Mean() > 45*ms {
		t.Errorf("quantiles are %v, %s", d, problem)
	}
}

func TestLoadsAreDrawnAsTheyAreWritten(t *testing.T) {
	text := with(t, "rate: 50/s", "rate: 50/s, load: [{at: 10s, times: 2, ramp: 5s}, {at: 20s, for: 10s, rate: 300/s, ramp: 1s}, {at: 40s, for: 1s, every: 5s, rate: 200/s}]")
	f, err := Parse("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	load := f.fleets[0].load(f.duration, scale{2, 0.5, 1})
	for at, want := range map[int]float64{0: 100, 12: 140, 16: 200, 25: 400, 35: 200, 40: 300, 43: 200, 55: 300, 59: 200} {
		got := 0.0
		for i := range load {
			if load[i].At > time.Duration(at)*time.Second {
				break
			}
			got = load[i].PerSecond
			if i+1 < len(load) && load[i+1].At > load[i].At {
				share := float64(time.Duration(at)*time.Second-load[i].At) / float64(load[i+1].At-load[i].At)
				got += min(share, 1) * (load[i+1].PerSecond - got)
			}
		}
		if got < want-0.5 || got > want+0.5 {
			t.Errorf("at %d s the rate is %.1f, want %.1f", at, got, want)
		}
	}
}

func TestDailyLoadsKeepTheirMean(t *testing.T) {
	f := namedFleet{fleet: fleet{Rate: 100, Daily: daily{Period: span(time.Hour), Swing: 0.5, Peak: instant(15 * time.Minute)}}}
	load := f.load(2*time.Hour, asItIs)
	area, most, when := 0.0, 0.0, time.Duration(0)
	for i := range load[1:] {
		area += (load[i].PerSecond + load[i+1].PerSecond) / 2 * (load[i+1].At - load[i].At).Seconds()
		if load[i].PerSecond > most {
			most, when = load[i].PerSecond, load[i].At
		}
	}
	if when != 15*time.Minute {
		t.Errorf("it is highest at %s", when)
	}
	if mean := area / load[len(load)-1].At.Seconds(); mean < 97 || mean > 104 || most < 149 || most > 151 {
		t.Errorf("the mean is %.1f and the most %.1f, want 100 and 150", mean, most)
	}
}

func TestADailyLoadIsHighestAtAQuarterUnlessItSays(t *testing.T) {
	f := namedFleet{fleet: fleet{Rate: 100, Daily: daily{Period: span(time.Hour), Swing: 0.5}}}
	for _, p := range f.load(time.Hour, asItIs) {
		if p.PerSecond > 149.9 && (p.At < 14*time.Minute || p.At > 16*time.Minute) {
			t.Errorf("%.1f/s at %s", p.PerSecond, p.At)
		}
	}
}

func TestAPolicyThatNobodyNamesIsAnError(t *testing.T) {
	text := strings.Replace(with(t, "to: db", "to: db, policy: other"), "policies:\n  db: {safe: true}\n", "", 1)
	f, err := Parse("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Run(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("got %v", err)
	}
}

func TestACancelledRunEndsEarly(t *testing.T) {
	f, err := Parse("x", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	_, err = f.Run(ctx, Options{Replications: 10_000, Workers: 2, Progress: func(done, all int) {
		if runs = done; done == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || runs > 10 {
		t.Errorf("after %d runs: %v", runs, err)
	}
}

// What decodes can be run, and nothing makes the reader panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	for _, name := range Names() {
		text, err := Text(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("fuzz", text)
		if err != nil {
			var found Findings
			if !errors.As(err, &found) || len(found) == 0 {
				t.Fatalf("an error that is no findings: %v", err)
			}
			return
		}
		work := 0.0
		for i := range s.fleets {
			work += s.fleets[i].mostWork(s.duration) * sum(s.visits(s.fleets[i].calls))
			work += float64(s.fleets[i].Count) / 100
		}
		if work > 2000 || s.binCount() > 2000 || s.duration > 2*time.Hour || len(s.services)+len(s.fleets) > 10 {
			return // right, and too large for now
		}
		w, err := s.world(&Policies{}, asItIs)
		if err != nil {
			return // a policy is missing
		}
		for _, x := range w.Services {
			if x.Replicas > 1000 {
				return
			}
		}
		study, err := s.Run(t.Context(), Options{Replications: 1, Alone: true, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, broken := range study.Sides[0].Broken {
			t.Error(broken)
		}
	})
}

func TestVisitsMultiplyAlongTheGraph(t *testing.T) {
	f, err := Parse("x", []byte(`version: 1
title: a graph whose callees stand first
duration: 10s
clients:
  shop: {count: 1, rate: 1/s, calls: [{to: a, fan: 3}]}
services:
  d: {time: 1ms}
  c: {time: 1ms, calls: [{to: d}]}
  b: {time: 1ms, calls: [{to: d, fan: 4}]}
  a: {time: 1ms, calls: [{to: b, fan: 2, chance: 50%}, {to: c}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	// In the order of the file: d is asked by c three times, and by b three times four.
	for i, want := range []float64{15, 3, 3, 3} {
		if got := f.visits(f.fleets[0].calls)[i]; got != want {
			t.Errorf("%s is asked %g times, want %g", f.services[i].name, got, want)
		}
	}
}
