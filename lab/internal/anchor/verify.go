package anchor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// check is one run of an anchor and what it must come to.
type check struct {
	anchor   string
	settings string
	wants    []want
}

// want is what one figure must be.
type want struct {
	figure              string
	expected, tolerance float64
	bound               Bound
}

func near(figure string, expected, tolerance float64) want {
	return want{figure, expected, tolerance, ""}
}

func atLeast(figure string, expected, tolerance float64) want {
	return want{figure, expected, tolerance, AtLeast}
}

func atMost(figure string, expected, tolerance float64) want {
	return want{figure, expected, tolerance, AtMost}
}

// checks are everything that [Verify] checks.
func checks() (all []check) {
	for _, some := range [][]check{
		awsChecks(), retryChecks(), collapseChecks(), sreChecks, metastableChecks, tailChecks, limitChecks, queueChecks, jitterChecks(),
	} {
		all = append(all, some...)
	}
	return all
}

// Verify runs every anchor at the parameters for which a result was published, and
// compares. The cases are in a fixed order, and the same on every machine. A case
// that does not pass is no error; an error is a model that can't be run, or that of
// ctx when it ends first.
//
// A progress that is not nil is called before each run, by the goroutine that called Verify, with
// how many runs are done, how many there are, and the run's name.
func Verify(ctx context.Context, progress func(done, of int, name string)) ([]Case, error) {
	return verify(ctx, checks(), progress)
}

func verify(ctx context.Context, list []check, progress func(done, of int, name string)) (all []Case, err error) {
	for i, c := range list {
		name := strings.TrimSpace(c.anchor + " " + c.settings)
		if progress != nil {
			progress(i, len(list), name)
		}
		figures, err := Run(ctx, c.anchor, pairs(c.settings))
		if err != nil {
			return nil, err
		}
		for _, w := range c.wants {
			i := slices.IndexFunc(figures, func(f Figure) bool { return f.Name == w.figure })
			if i < 0 {
				return nil, fmt.Errorf("anchor %s measures no %s", c.anchor, w.figure)
			}
			k := Case{Figure{name + ": " + w.figure, figures[i].Measured}, w.expected, w.tolerance, w.bound, false}
			k.judge()
			all = append(all, k)
		}
	}
	return all, nil
}

// pairs reads "clients=80 strategy=full".
func pairs(settings string) map[string]string {
	m := map[string]string{}
	for word := range strings.FieldsSeq(settings) {
		key, value, _ := strings.Cut(word, "=")
		m[key] = value
	}
	return m
}

// retryChecks are Brooker's closed forms, the runs of his code, and its second post.
// With more than 100 000 calls success is known to 0.01 and load to 0.015. What was
// published of the breaker and of few calls is one run each: that of the breaker at
// x = 0.1 deviates by 0.0035, that of a thousand clients by 0.03.
func retryChecks() (all []check) {
	known := func(settings string, success, off, load float64) {
		all = append(all, check{"brooker-retry", settings, []want{near("success", success, off), near("load", load, 0.015)}})
	}
	within := func(settings string, success, load float64) { known(settings, success, 0.01, load) }
	for _, x := range []float64{0.05, 0.1, 0.2, 0.5, 0.75} {
		within(fmt.Sprintf("x=%v policy=none", x), 1-x, 1)
		within(fmt.Sprintf("x=%v policy=retries", x), 1-float64(x*x*x*x), 1+x+float64(x*x)+float64(x*x*x))
		load := 1 + min(x/(1-x), 0.1)
		within(fmt.Sprintf("x=%v policy=bucket seconds=600 runs=2", x), min((1-x)*load, 1), load)
	}
	within("x=1 policy=retries", 0, 4)
	within("x=1 policy=bucket seconds=600 runs=2", 0, 1.1)
	for _, r := range []struct{ x, bucket, load, breaker, breakerLoad float64 }{
		{0.05, 1, 1.052, 0.988, 1.036}, {0.1, 0.992, 1.096, 0.918, 1.026}, {0.2, 0.905, 1.134, 0.802, 1.004},
		{0.5, 0.570, 1.143, 0.498, 1}, {0.75, 0.285, 1.143, 0.251, 1},
	} {
		within(fmt.Sprintf("x=%v policy=bucket", r.x), r.bucket, r.load)
		known(fmt.Sprintf("x=%v policy=breaker", r.x), r.breaker, 0.014, r.breakerLoad)
	}
	for _, r := range []struct {
		clients       int
		load, success float64
	}{{10, 1.14, 0.991}, {100, 1.45, 0.979}, {1000, 1.87, 0.965}} {
		few := fmt.Sprintf("clients=%d rate=100 runs=100", r.clients)
		all = append(all,
			check{"brooker-retry", "x=0.5 policy=bucket " + few, []want{near("load", r.load, 0.06)}},
			check{"brooker-retry", "x=0.0325 policy=breaker " + few, []want{near("success", r.success, 0.014)}})
	}
	return append(all,
		check{"backoff-loop", "loop=open policy=retries", []want{near("load_change", 0, 0.02), near("load_with", 1.875, 0.015)}},
		check{"backoff-loop", "loop=open policy=bucket", []want{near("load_change", 0, 0.02), near("load_with", 1.142, 0.015)}},
		check{"backoff-loop", "loop=serial policy=retries", []want{atLeast("attempts_saved", 0.4, 0), near("load_change", 0, 0.02)}},
		check{"backoff-loop", "loop=serial policy=retries x=0.75", []want{atLeast("attempts_saved", 0.4, 0)}},
	)
}

// collapseChecks are shares of 600 runs of an independent version, and what gabion's
// own layers are expected to make of the same spike.
func collapseChecks() (all []check) {
	const runs = 100
	stuck := func(settings string, p float64) {
		known := min(max(p, 1.0/600), 1-1.0/600) // 600 runs say no more
		off := 4 * math.Sqrt(known*(1-known)*(1.0/runs+1.0/600))
		all = append(all, check{"collapse", fmt.Sprintf("%s runs=%d", settings, runs), []want{near("stuck", p, off)}})
	}
	for _, r := range []struct{ rate, immediate, backoff float64 }{
		{20, 0, 0}, {30, 0.27, 0}, {40, 0.78, 0}, {50, 0.98, 0.68}, {60, 1, 1},
	} {
		stuck(fmt.Sprintf("rate=%v policy=immediate", r.rate), r.immediate)
		stuck(fmt.Sprintf("rate=%v policy=backoff", r.rate), r.backoff)
	}
	for _, policy := range []string{"budget", "tokens", "breaker", "none"} {
		stuck("rate=40 policy="+policy, 0)
	}
	return append(all,
		check{"collapse", "shape=ramp policy=immediate runs=50", []want{near("dead_from_s", 25, 3), near("goodput_30_60_per_s", 0, 0.01)}},
		check{"collapse", "shape=ramp policy=backoff runs=50", []want{near("dead_from_s", 29, 3), near("goodput_30_60_per_s", 0, 0.01)}})
}

// sreChecks are the fixed point of throttling, to 3 % where ten and more are
// accepted a second; that recovery takes longer than a window, since the first to
// get through are one a window; and the arithmetic of layers, which is exact
// without a budget.
var sreChecks = []check{
	{"throttle", "k=2 accept=50", []want{near("sent_per_s", 100, 3)}},
	{"throttle", "k=2 accept=10", []want{near("sent_per_s", 19.98, 0.6)}},
	{"throttle", "k=2 accept=1", []want{near("sent_per_s", 1.594, 0.16)}},
	{"throttle", "k=1.5 accept=50", []want{near("sent_per_s", 75, 2.25)}},
	{"throttle", "k=1.5 accept=10", []want{near("sent_per_s", 14.8, 0.45)}},
	{"throttle", "k=2 accept=0", []want{near("sent_per_s", 0.0083, 0.003)}},
	{"throttle", "k=2 accept=100 outage=10m", []want{atLeast("recovery_s", 120, 0)}},
	{"layers", "tries=4 layers=3", []want{near("amplification", 64, 0)}},
	{"layers", "tries=3 layers=5", []want{near("amplification", 243, 0)}},
	{"layers", "tries=3 layers=1", []want{near("amplification", 3, 0)}},
	{"layers", "tries=4 layers=3 where=top", []want{near("amplification", 4, 0)}},
	{"layers", "tries=4 layers=3 where=bottom", []want{near("amplification", 4, 0)}},
	{"layers", "tries=3 layers=1 budget=10% seconds=300", []want{budgeted(1)}},
	{"layers", "tries=4 layers=3 budget=10% seconds=300", []want{budgeted(3)}},
	{"layers", "tries=3 layers=5 budget=10% seconds=300", []want{budgeted(5)}},
}

// budgeted is what layers make of a call whose budget is a tenth of its calls: published
// is 1.1 to the power of the layers, which is the most here, since of the calls in
// [budget.Window] at least 14 of 15 pay.
func budgeted(layers float64) want {
	least, most := math.Pow(1+0.1*14/15, layers), math.Pow(1.1, layers)
	return near("amplification", (least+most)/2, (most-least)/2+0.001)
}

// metastableChecks are an order: of four cells exactly one stays down, and none
// where what sustains it is taken away.
var metastableChecks = []check{
	{"metastable", "cpu=0.40 length=10s runs=3", []want{atLeast("stuck", 0.5, 0)}},
	{"metastable", "cpu=0.45 length=10s runs=3", []want{near("stuck", 0, 0.49)}},
	{"metastable", "cpu=0.40 length=9s runs=3", []want{near("stuck", 0, 0.49)}},
	{"metastable", "cpu=0.40 length=10s sleep=100us runs=3", []want{near("stuck", 0, 0.49)}},
	{"metastable", "cpu=0.40 length=10s boundary=true runs=1", []want{near("longest_healed_s", 9.5, 0.5)}},
	{"metastable", "cpu=0.40 length=10s drop=true runs=3", []want{near("stuck", 0, 0)}},
	{"metastable", "cpu=0.40 length=10s budget=10% runs=3", []want{near("stuck", 0, 0)}},
}

// tailChecks allow 5 % at the 99.9th percentile and 0.05 points of extra requests.
var tailChecks = []check{
	{"tail", "hedge=none operations=600000", []want{near("p50_ms", 30.9, 0.6), near("p99_ms", 493, 25), near("p99.9_ms", 1825, 91), near("extra", 0, 0)}},
	{"tail", "hedge=10ms operations=600000", []want{near("p50_ms", 15.4, 0.3), near("p99_ms", 26.4, 1.3), near("p99.9_ms", 75.6, 3.8), near("extra", 0.02, 0.0005)}},
	{"tail", "hedge=10ms correlated=true operations=300000", []want{near("p99.9_ms", 1825, 182)}},
	{"fanout", "p=0.01 fanout=100", []want{near("slow", 0.634, 0.006)}},
	{"fanout", "p=0.0001 fanout=2000", []want{near("slow", 0.181, 0.005)}},
	{"hedge-load", "load=0.9 seconds=100", []want{atLeast("p99_ratio", 2, 0)}},
	{"hedge-load", "load=0.9 budget=5% seconds=100", []want{atMost("extra", 0.05, 0.0005), atLeast("extra", 0.04, 0)}},
}

// limitChecks allow Vegas one step.
var limitChecks = []check{
	{"vegas", "capacity=20", []want{near("limit", 26, 1), near("queue", 4.5, 1.5)}},
	{"vegas", "capacity=50", []want{near("limit", 55, 1), near("queue", 4.5, 1.5)}},
	{"vegas", "capacity=100", []want{near("limit", 106, 2), near("queue", 9, 3)}},
	{"vegas", "capacity=200", []want{near("limit", 210, 2), near("queue", 9, 3)}},
	{"vegas", "capacity=20 start=40", []want{atLeast("limit", 40, 0)}},         // the first sample was queued already
	{"gradient", "capacity=100 baseline=known", []want{near("limit", 154, 1)}}, // 1.5·C + 4
	{"gradient", "capacity=100", []want{near("limit", 200, 0)}},                // the highest there is: the average follows
}

// queueChecks are exact results; the tolerance is what runs of this length know.
var queueChecks = []check{
	{"mm1", "", []want{near("mean_ms", 500, 10), near("p99_ms", 2303, 70), near("p99.9_ms", 3454, 140), near("wait_services", 4, 0.1)}},
	{"mmc", "seconds=3000", []want{near("wait_share", 0.409, 0.005), near("wait_services", 0.2046, 0.006)}},
	{"md1", "", []want{near("wait_services", 2, 0.05)}},
	{"mm1k", "room=5", []want{near("loss", 0.08882, 0.002), near("wait_share", 0.64013, 0.005)}},
}

// jitterChecks are means, bounds and the whole distribution of 20 000 waits.
func jitterChecks() (all []check) {
	add := func(settings string, mean, deviation, least, most float64) {
		const draws = 20_000
		all = append(all, check{"jitter", settings, []want{
			near("mean_ms", mean, float64(4*deviation/math.Sqrt(draws))+1e-5),
			atLeast("least_ms", least, 1e-5), atMost("most_ms", most, 1e-5),
			near("ks", 0, 1.95/math.Sqrt(draws)),
		}})
	}
	uniform := func(settings string, low, high float64) {
		add(settings, (low+high)/2, (high-low)/math.Sqrt(12), low, high)
	}
	uniform("kind=full retry=1", 0, 100)
	uniform("kind=full retry=4", 0, 800)
	uniform("kind=full retry=12", 0, 30_000)
	uniform("kind=equal retry=1", 50, 100)
	uniform("kind=equal retry=3", 200, 400)
	uniform("kind=exponential retry=5", 1600, 1600)
	uniform("kind=linear retry=5", 500, 500)
	uniform("kind=constant retry=5", 100, 100)
	uniform("kind=decorrelated retry=1", 100, 300)
	// E[next] = (base + 3·E)/2 below the cap, and E[next²] = (base² + 3·base·E + 9·E²)/3.
	m, square := 100.0, 100.0*100
	for retry := 1; retry <= 5; retry++ {
		m, square = (100+3*m)/2, (100*100+3*100*m+9*square)/3
		if retry > 1 {
			add(fmt.Sprintf("kind=decorrelated retry=%d cap=1h", retry), m, math.Sqrt(square-m*m), 100, 100*math.Pow(3, float64(retry)))
		}
	}
	return all
}
