package lint

import (
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
)

func TestRulesOfBreakers(t *testing.T) {
	tryRule(t, "G013", []specimen{
		{"off", "{breaker: off}", "warning",
			"a: breaker: off: a dependency that is dead gets up to 3 attempts (default) of every call for as long as it is dead, and retries are not held back (retry.hold), since no breaker counts the failures"},
		{"off, and one attempt", "{breaker: off, retry: off}", "warning", "gets up to 1 attempt of every call for as long as it is dead"},
		{"off, and local", "{breaker: off, facts: {local: true}}", "silent", ""},
		{"off, and the mesh has one", "{breaker: off, facts: {mesh: {breaker: true}}}", "silent", ""},
		{"observes", "{breaker: {observe: true}}", "note", ""},
		{"asked once", "{breaker: {per: call}}", "note", ""},
		{"asked once for one attempt", "{breaker: {per: call}, retry: off}", "silent", ""},
		{"the default", "{}", "silent", ""},
	})
	tryRule(t, "G014", []specimen{
		{"a thousand", "{bulkhead: off, timeout: {attempt: 4s}, facts: {rate: 250/s}}", "silent", ""},
		{"more", "{bulkhead: off, timeout: {attempt: 4s}, facts: {rate: 251/s}}", "warning",
			"a: facts.rate 251/s × timeout.attempt 4s = 1004 attempts at once when answers are slow: bulkhead: off does not bound them, and no rule of the breaker sees them"},
		{"the last attempt has the time of the call", "{bulkhead: off, facts: {rate: 67/s}}", "warning", "timeout.call 15s (default) = 1005"},
		{"nothing ends them", "{bulkhead: off, timeout: {call: off, attempt: off}, facts: {rate: 1/s}}", "warning", "without end"},
		{"slow calls open the breaker", "{bulkhead: off, breaker: {slow_call: 1s}, facts: {rate: 900/s}}", "silent", ""},
		{"slots bound them", "{facts: {rate: 900/s}}", "silent", ""},
		{"not said", "{bulkhead: off}", "unknown facts.rate", ""},
	})
	tryRule(t, "G015", []specimen{
		{"half are slow, and half open it", "{breaker: {slow_call: 99ms, slow_rate: 50%}, facts: {p50: 100ms}}", "error",
			"a: slow_call 99ms < facts.p50 100ms: at least 50% of the attempts are slow when all is well ≥ slow_rate 50%: the breaker opens in health"},
		{"half are slow, and more open it", "{breaker: {slow_call: 99ms, slow_rate: 51%}, facts: {p50: 100ms}}", "warning", ""},
		{"the median", "{breaker: {slow_call: 100ms, slow_rate: 50%}, facts: {p50: 100ms}}", "silent", ""},
		{"one in a hundred opens it", "{breaker: {slow_call: 399ms, slow_rate: 1%}, facts: {p50: 100ms, p99: 400ms}}", "error", ""},
		{"two in a hundred open it", "{breaker: {slow_call: 399ms, slow_rate: 2%}, facts: {p50: 100ms, p99: 400ms}}", "silent", ""},
		{"the default has no such rule", "{facts: {p50: 5s}}", "silent", ""},
		{"not said", "{breaker: {slow_call: 1s}}", "unknown facts.p50", ""},
	})
	tryRule(t, "G016", []specimen{
		{"the window holds as many", "{retry: off, breaker: {min_calls: 40}, facts: {rate: 4/s}}", "silent", ""},
		{"one more", "{retry: off, breaker: {min_calls: 41}, facts: {rate: 4/s}}", "warning",
			"a: min_calls 41 > the 40 outcomes that facts.rate 4/s brings into window 10s (default), in each process and partition: no rate ever opens the breaker"},
		{"retries count, as far as the budget allows", "{breaker: {min_calls: 52}, facts: {rate: 4/s}}", "silent", ""},
		{"and no further", "{breaker: {min_calls: 53}, facts: {rate: 4/s}}", "warning", ""},
		{"a count", "{retry: off, breaker: {failures: 41}, facts: {rate: 4/s}}", "warning", "failures 41 > the 40"},
		{"a count that is reached", "{retry: off, breaker: {failures: 40}, facts: {rate: 4/s}}", "silent", ""},
		{"the default needs twenty in a row", "{retry: off, facts: {rate: 2/m}}", "silent", ""},
		{"in ten minutes", "{retry: off, facts: {rate: 1.9/m}}", "warning", "a: at facts.rate 0.0317/s the breaker opens 10m32s after"},
		{"fewer in a row", "{retry: off, breaker: {consecutive: 3}, facts: {rate: 1.9/m}}", "silent", ""},
		{"no rule at all is left", "{breaker: {consecutive: off, failure_rate: off}, facts: {rate: 9/s}}", "warning", "a: at facts.rate 9/s no rule is left that can open the breaker"},
		{"the limit counts", "{retry: off, rate_limit: {rate: 1/m}, facts: {rate: 9/s}}", "warning", "at facts.rate 1/m"},
		{"off", "{breaker: off, facts: {rate: 1/m}}", "silent", ""},
		{"not said", "{}", "unknown facts.rate", ""},
	})
	tryRule(t, "G017", []specimen{
		{"one in twenty", "{breaker: {failures: 5}, facts: {rate: 10/s}}", "warning",
			"a: failures 5 of facts.rate 10/s × window 10s (default) = 100 calls are 5%: the breaker opens while 95% succeed"},
		{"more", "{breaker: {failures: 6}, facts: {rate: 10/s}}", "silent", ""},
		{"of a window of calls", "{breaker: {failures: 5, window_calls: 100}, facts: {rate: 1/s}}", "warning", "of window_calls = 100 calls"},
		{"a short row", "{breaker: {consecutive: 5}, facts: {rate: 40/s}}", "note", "a: at facts.rate 40/s, of which 10% fail, 5 failures in a row come by chance every 46m18s"},
		{"one that is rare", "{breaker: {consecutive: 5}, facts: {rate: 30/s}}", "silent", ""},
		{"one that has to last", "{breaker: {consecutive: 5, consecutive_for: 8s}, facts: {rate: 40/s}}", "silent", ""},
		{"the default", "{facts: {rate: 1000/s}}", "silent", ""},
		{"not said", "{}", "unknown facts.rate", ""},
	})
	tryRule(t, "G018", []specimen{
		{"a half", "{breaker: {failure_rate: 50%}}", "note", "a: failure_rate 50%: the breaker refuses all calls while 50% of them succeed; in the lab that lost more than it saved"},
		{"more", "{breaker: {failure_rate: 51%}}", "silent", ""},
		{"a tenth", "{breaker: {failure_rate: 10%}}", "note", ""},
		{"less", "{breaker: {failure_rate: 9.9%}}", "warning", ""},
		{"nine calls", "{breaker: {min_calls: 9}}", "note", "min_calls 9"},
		{"ten", "{breaker: {min_calls: 10}}", "silent", ""},
		{"all of one", "{breaker: {min_calls: 1, failure_rate: 100%}}", "silent", ""},
		{"429 counts", "{breaker: {throttled: true}}", "note", ""},
		{"a short row", "{breaker: {consecutive: 3, consecutive_for: 100ms}}", "warning", "a: 3 failures over 100ms open the breaker, which then refuses all calls for 2s (default): an outage of 100ms becomes one of 2s"},
		{"of any time", "{breaker: {consecutive: 7}}", "warning", "a: 7 failures in a row, however quickly they come, open the breaker, which then refuses all calls for 2s (default): an outage of a moment becomes one of 2s"},
		{"at a high rate", "{breaker: {consecutive: 3, consecutive_for: 100ms}, facts: {rate: 200/s}}", "warning", ""},
		{"at a low one", "{breaker: {consecutive: 3, consecutive_for: 100ms}, facts: {rate: 4/s}}", "silent", ""},
		{"a fourth of what it refuses for", "{breaker: {consecutive: 3, consecutive_for: 500ms}}", "silent", ""},
		{"a single failure", "{breaker: {failures: 1}}", "warning", "a: failures 1: each failure opens the breaker, which then refuses all calls for 2s (default), and the retry of the call that failed"},
		{"a single failure, and no other call comes", "{breaker: {failures: 1}, facts: {rate: 1/m}}", "warning", ""},
		{"a single failure of few calls", "{breaker: {failures: 1}, facts: {rate: 1.9/s}}", "warning", ""},
		{"a single failure of many, which G017 finds", "{breaker: {failures: 1}, facts: {rate: 2/s}}", "silent", ""},
		{"a single failure of the last 19 calls", "{breaker: {failures: 1, window_calls: 19}, facts: {rate: 9/s}}", "warning", ""},
		{"a single failure of the last 20", "{breaker: {failures: 1, window_calls: 20}, facts: {rate: 9/s}}", "silent", ""},
		{"two failures", "{breaker: {failures: 2}}", "silent", ""},
	})
	tryRule(t, "G019", []specimen{
		{"five minutes", "{breaker: {open: 5m}}", "warning", "a: open 5m, which grows to 6m15s, > 5m"},
		{"in all", "{breaker: {open: 1m, open_max: 5m}}", "silent", ""},
		{"more", "{breaker: {open: 1m, open_max: 301s}}", "warning", "a: open_max 5m1s > 5m: so long are calls refused after the dependency is back"},
		{"with probes by calls", "{breaker: {open: 1m, open_max: 1h, open_calls: 8}}", "silent", ""},
		{"the field's", "{breaker: {open: 60s}}", "silent", ""},
		{"100 ms", "{breaker: {open: 100ms}}", "silent", ""},
		{"less", "{breaker: {open: 99ms}}", "warning", "up to 10.1 probes a second"},
		{"the default", "{}", "silent", ""},
	})
	tryRule(t, "G025", []specimen{
		{"local", "{facts: {local: true}}", "warning", "a: breaker: on (default) and facts.local: what"},
		{"not local", "{facts: {local: false}}", "silent", ""},
		{"none", "{breaker: off, facts: {local: true}}", "silent", ""},
		{"not said", "{}", "unknown facts.local", ""},
	})
}

// What is proposed can be followed, whatever the rate is and whatever else the policy has.
func TestWhatIsProposedCanBeFollowed(t *testing.T) {
	for _, c := range []struct{ rule, keys, want string }{
		{"G016", "breaker: {min_calls: 900}, facts: {rate: 30/s}", "write window: 30s, min_calls: 585"},
		{"G016", "breaker: {min_calls: 100, window: 20s}, facts: {rate: 2/s}", "write window: 1m, min_calls: 78"},
		{"G016", "breaker: {min_calls: 12}, facts: {rate: 0.1/s}", "write window: 2m42s, min_calls: 10"},
		{"G016", "breaker: {min_calls: 12}, facts: {rate: 1/h}", "leave min_calls out: consecutive needs no share"},
		{"G016", "breaker: {min_calls: 12, failure_rate: 80%}, facts: {rate: 1/m}", "leave min_calls, failure_rate out: consecutive needs no share"},
		{"G016", "breaker: {failure_rate: 80%}, facts: {rate: 1/m}", "leave failure_rate out: consecutive needs no share"},
		{"G016", "breaker: {failure_rate: 80%, consecutive: off}, facts: {rate: 1/m}", "write consecutive: 3, which needs no share"},
		{"G016", "retry: off, breaker: {window: 5m, min_calls: 900}, facts: {rate: 1/s}", "write min_calls: 150"},
		{"G018", "breaker: {failures: 1, failure_rate: off, consecutive: off}, bulkhead: off", "write failure_rate: 95% in its place, which knows what succeeds"},
		{"G018", "breaker: {failures: 1}, bulkhead: off", "leave it out: failure_rate and consecutive know what succeeds"},
		{"G008", "timeout: {call: 2s, attempt: 2s}", "write attempt: p99.9, which is measured, or attempts: 1"},
		{"G008", "timeout: {call: 2s, attempt: 2s}, facts: {rate: 2/s}", "write attempt: p99.9, which is measured, or attempts: 1"},
		{"G008", "timeout: {call: 2s, attempt: 2s}, facts: {rate: 1/s}", "write attempt: p99, which is measured, or attempts: 1"},
		{"G008", "timeout: {call: 2s, attempt: 2s}, facts: {rate: 1/m}", "write attempt: 1s, or attempts: 1"},
		{"G008", "timeout: {call: 2s, attempt: 2s, percentile: 99.9%}, facts: {rate: 1/m}", "write attempt: 1s, or attempts: 1"},
		{"G008", "timeout: {call: 2s, attempt: 2s, percentile: 99.9%}, facts: {rate: 1/s}", ""},
		{"G030", "timeout: {call: 3s, attempt: 80ms}, bulkhead: off", "write attempt: p99.9, which is measured, or say the p99 of the dependency: facts: {p99: 20ms}"},
		{"G030", "timeout: {call: 3s, attempt: 80ms}, bulkhead: off, facts: {rate: 1/m}", "write attempt: 1s or more, or say the p99 of the dependency: facts: {p99: 20ms}"},
		{"G030", "timeout: {call: 80ms}, bulkhead: off", "write timeout.call: 1s or more, or say the p99 of the dependency: facts: {p99: 20ms}"},
	} {
		f, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies: {a: {"+c.keys+"}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		found := Run([]*config.File{f}, Options{Rules: []string{c.rule}}).Findings
		if c.want == "" && len(found) > 0 || c.want != "" && !slices.ContainsFunc(found, func(g Finding) bool { return g.Proposal == c.want }) {
			t.Errorf("%s: %v", c.keys, found)
		}
	}
}

// A limit that sheds is proposed with each breaker that is to open later, and only where the bulkhead is
// the default.
func TestWhatShedsIsProposedInsteadOfABreakerThatDoes(t *testing.T) {
	const sheds = ", and write bulkhead: {limit: learned}, which sheds what an overload leaves no room for"
	for _, c := range []struct {
		name, keys string
		want       bool
	}{
		{"the default", "breaker: {failure_rate: 50%}", true},
		{"a single failure", "breaker: {failures: 1}", true},
		{"a short row", "breaker: {consecutive: 3}", true},
		{"a fixed limit", "breaker: {failure_rate: 50%}, bulkhead: {limit: 20}", false},
		{"one that is learned", "breaker: {failure_rate: 50%}, bulkhead: {limit: learned}", false},
		{"slots of calls", "breaker: {failure_rate: 50%}, bulkhead: {per: call}", false},
		{"none", "breaker: {failure_rate: 50%}, bulkhead: off", false},
		{"a preset's limit", "breaker: {failure_rate: 50%}, preset: payment", false},
		{"429 counts", "breaker: {throttled: true}", false},
	} {
		f, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies: {a: {"+c.keys+"}}\n"))
		if err != nil {
			t.Fatal(c.name, err)
		}
		found := Run([]*config.File{f}, Options{Rules: []string{"G018"}}).Findings
		if len(found) != 1 || strings.HasSuffix(found[0].Proposal, sheds) != c.want {
			t.Errorf("%s: %v", c.name, found)
		}
	}
}

// Whether anybody sees breakers is asked of a file, and not of each dependency.
func TestUnobservedIsAskedOnceOfAFile(t *testing.T) {
	for _, c := range []struct{ fact, head, deps, want string }{
		{"no metrics", "facts: {metrics: false}\n", "{a: {}, b: {}, c: {breaker: off}}",
			"gabion.yaml:2:18: facts.metrics: false: when one of 2 breakers opens, calls are refused and no metric shows why"},
		{"metrics", "facts: {metrics: true}\n", "{a: {}}", ""},
		{"there are none", "facts: {metrics: false}\n", "{a: {breaker: off}}", ""},
		{"not said", "", "{a: {}}", "unknown facts.metrics: the file does not say it"},
		{"not read", "facts: {metrics: 7}\n", "{a: {}}", "unknown facts.metrics: it could not be read"},
	} {
		f, _ := config.Read("gabion.yaml", []byte("version: 1\n"+c.head+"dependencies: "+c.deps+"\n"))
		r := Run([]*config.File{f}, Options{Rules: []string{"G048"}})
		var got []string
		for _, g := range r.Findings {
			line, _, _ := strings.Cut(g.Finding.Error(), "\n")
			got = append(got, line)
		}
		for _, u := range r.Unknown {
			got = append(got, "unknown "+u.Missing+": "+u.Why)
		}
		if is := strings.Join(got, ", "); is != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.fact, is, c.want)
		}
	}
}
