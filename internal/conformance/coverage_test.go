package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/testgolden"
	"github.com/gabion-go/gabion/internal/testrace"
)

// cover says where a case of CONFORMANCE.md is tested, or why it is not.
type cover struct {
	id   int
	fact string
	in   string // the packages whose tests cite it, "here" being this one
	out  string // why it is left out, wholly or for now
}

const (
	rules     = "the numbers of another rule: gabion's learned limit has its own (learned-limit.md)"
	least     = "gabion's learned limit measures the usual time anew at any limit, every 20 s, and has no phase for the least one (learned-limit.md)"
	endpoints = "an address is left out by its own failures, as a breaker opens, and for seconds"
	profile   = "a compatibility profile of another system, which gabion does not have"
)

var coverage = []cover{
	{1, "a failure rate below and at the threshold", "here breaker", ""},
	{2, "rates are also evaluated on successes", "here breaker", ""},
	{3, "below the minimum a rate is unknown", "here breaker", ""},
	{4, "a window of calls forgets the oldest", "here breaker", ""},
	{5, "a window smaller than its minimum is refused", "policy breaker", ""},
	{6, "threshold 100 %", "here breaker", ""},
	{7, "exactly at the threshold", "here breaker", ""},
	{8, "idle for longer than the window", "here breaker window", ""},
	{9, "slices of a window read every two seconds", "", profile},
	{10, "expiry at the age of the window", "window", ""},
	{11, "the clock jumps", "breaker window budget", ""},
	{12, "buckets add up to totals", "window", ""},
	{13, "many cross the threshold together", "breaker", ""},
	{14, "slow calls trip", "here breaker", ""},
	{15, "slow is strictly longer", "here breaker", ""},
	{16, "two rates at once, one transition", "here breaker", ""},
	{17, "calls in flight age into slow ones", "breaker", ""},
	{18, "open refuses, then half-opens", "here breaker", ""},
	{19, "admitted at exactly the open deadline", "here breaker", ""},
	{20, "open times grow and are reset", "here breaker", ""},
	{21, "late failure while open", "here breaker", ""},
	{22, "late success while open", "here breaker", ""},
	{23, "a refusal says when to come back", "here breaker", ""},
	{24, "huge open times saturate", "here breaker", ""},
	{25, "rejections are not in the window", "here breaker", ""},
	{26, "two in a row shut, with doubling times", "", profile},
	{27, "four probes at once", "here breaker", ""},
	{28, "the probes' verdict by rate", "here breaker", ""},
	{29, "slow probes", "here breaker", ""},
	{30, "a probe that says nothing", "here breaker", ""},
	{31, "a cancelled probe is neutral", "here breaker", ""},
	{32, "panic and Goexit are neutral", "here breaker", ""},
	{33, "a probe that never settles", "here breaker", ""},
	{34, "a change of state makes attempts in flight stale", "here breaker", ""},
	{35, "success three of four", "here breaker", ""},
	{36, "admitted in closed, finished in half-open", "here breaker", ""},
	{37, "a thousand calls at the end of the open time, one probe", "here breaker", ""},
	{38, "waiting for the probes' verdict", "", "optional: a caller can't wait for a probe's result; it is refused with the time to come back"},
	{39, "forced open", "here breaker", ""},
	{40, "forced open with an end", "here breaker", ""},
	{41, "disabled", "here breaker", ""},
	{42, "observe-only", "here breaker", ""},
	{43, "closed to half-open by hand is refused; reset", "here breaker", ""},
	{44, "two isolations", "here breaker", ""},
	{45, "observers that are slow or panic", "breaker behaviour", ""},
	{46, "a saved half-open breaker is restored as open", "", "optional: state is not persisted"},
	{47, "two hosts never share a breaker", "here", ""},
	{48, "three in a row", "here breaker", ""},
	{49, "ejection times of endpoints", "", endpoints},
	{50, "outliers by success rate", "", endpoints},
	{51, "all endpoints bad", "behaviour contrib/gabiongrpc", ""},
	{52, "three attempts, two waits", "here", ""},
	{53, "no wait that does not fit the deadline", "here", ""},
	{54, "exponential, linear, constant", "here backoff", ""},
	{55, "waits under a cap", "backoff", ""},
	{56, "waits never overflow", "backoff", ""},
	{57, "full and equal jitter", "here backoff", ""},
	{58, "decorrelated jitter", "backoff", ""},
	{59, "jitter of ± 25 %", "", profile},
	{60, "gRPC's ranges of backoff", "grpcconfig contrib/gabiongrpc", "in part: the waits of an imported service config are drawn between zero and the whole"},
	{61, "Envoy's ranges of backoff", "", profile},
	{62, "unclassified and ignored errors", "here classify", ""},
	{63, "discarded bodies are drained and closed", "gabionhttp", ""},
	{64, "cancel during the wait", "here", ""},
	{65, "the caller's cancel, an attempt's timeout", "here classify contrib/gabiongrpc", ""},
	{66, "unsafe work is repeated only if never sent", "here classify contrib/gabiongrpc", ""},
	{67, "a body that can't be sent again", "here gabionhttp", ""},
	{68, "nothing is sent once the caller has its answer", "here contrib/gabiongrpc", ""},
	{69, "every re-send is charged", "here contrib/gabiongrpc", ""},
	{70, "the attempt header", "contrib/gabiongrpc", "in part: gabionhttp has its own header, X-Request-Attempt; it does not imitate other systems' names or first numbers"},
	{71, "Retry-After", "here gabionhttp", ""},
	{72, "AWS's header", "", profile},
	{73, "gRPC's pushback", "here contrib/gabiongrpc", ""},
	{74, "gRPC's service config", "grpcconfig contrib/gabiongrpc", ""},
	{75, "overloaded, don't retry", "here classify gabionhttp", ""},
	{76, "a budget's reserve", "budget", ""},
	{77, "a budget's ratio", "budget", ""},
	{78, "a budget forgets", "budget", ""},
	{79, "a budget's floor", "budget", ""},
	{80, "a budget's bounds", "here budget policy", ""},
	{81, "stacked layers pay in once", "budget", ""},
	{82, "a share of what is active", "here budget", ""},
	{83, "a thousand simultaneous failures", "here budget", ""},
	{84, "which answers move gRPC's tokens", "here budget contrib/gabiongrpc", ""},
	{85, "AWS's quota", "here budget", ""},
	{86, "AWS's quota of 2026", "here budget", ""},
	{87, "every mode refills", "here budget", ""},
	{88, "a refusal returns at once", "here", ""},
	{89, "the probability of throttling", "here throttle", ""},
	{90, "what counts as a request", "here throttle", ""},
	{91, "Finagle's accept rate", "", profile},
	{92, "Envoy's admission control", "", profile},
	{93, "timeouts that contradict each other", "policy", ""},
	{94, "the earlier deadline wins; a cancel is a cancel", "here", ""},
	{95, "zero, off and negative times", "here policy", ""},
	{96, "the time that is passed on decreases", "gabionhttp", ""},
	{97, "rejecting expired requests at a bounded rate", "", profile},
	{98, "work that ignores its context", "here", "there is no option to abandon it"},
	{99, "capacity two, queue one", "here bulkhead", ""},
	{100, "cancelled waiters", "here bulkhead", ""},
	{101, "everything gives its slot back", "here bulkhead", ""},
	{102, "shrinking and growing", "here bulkhead", ""},
	{103, "local refusals are no failures", "here", ""},
	{104, "hedges in flight", "here contrib/gabiongrpc", ""},
	{105, "failures bring hedges forward", "here contrib/gabiongrpc", ""},
	{106, "losers", "here contrib/gabiongrpc", ""},
	{107, "delay zero and off", "here contrib/gabiongrpc", ""},
	{108, "pushback", "here contrib/gabiongrpc", ""},
	{109, "all fail", "here contrib/gabiongrpc", ""},
	{110, "what is never hedged", "here contrib/gabiongrpc", ""},
	{111, "gradient limits", "", rules},
	{112, "no growth without need", "lab/internal/limits learned", ""},
	{113, "recovery after a step load", "lab/internal/limits learned", ""},
	{114, "stuck at the minimum", "", least},
	{115, "retry outside the breaker", "here", ""},
	{116, "five layers of three attempts", "here", ""},
	{117, "reload", "here", ""},
	{118, "chaos", "gabionhttp", ""},
	{119, "same seed, same log", "here lab/internal/bridge", "there is no sidecar"},
	{120, "partitions are bounded", "here", ""},
	{121, "kill switch", "here", ""},
}

// cases is how many cases CONFORMANCE.md has: C1 to C121, without a gap.
const cases = 121

// TestEveryCaseIsTestedOrLeftOutWithAReason holds the list to the tests: a
// package that is said to test a case must cite it.
func TestEveryCaseIsTestedOrLeftOutWithAReason(t *testing.T) {
	testrace.Serial(t)
	for i, c := range coverage {
		if c.id != i+1 || i >= cases {
			t.Fatalf("the list has C%d in place %d", c.id, i+1)
		}
		if c.in == "" && c.out == "" {
			t.Errorf("C%d is neither tested nor left out", c.id)
		}
		for _, dir := range strings.Fields(c.in) {
			if !cites(t, dir, c.id) {
				t.Errorf("C%d: no test of %s cites it", c.id, dir)
			}
		}
	}
	if len(coverage) != cases {
		t.Errorf("%d cases, want %d", len(coverage), cases)
	}
	checkPage(t)
}

// TestThePageNamesWhatIsLeftOut: each case has its row, and each that is left out
// stands, with the reason, in the list before the table.
func TestThePageNamesWhatIsLeftOut(t *testing.T) {
	text, err := os.ReadFile("../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	before, table, _ := strings.Cut(string(text), "\n| case |")
	for _, c := range coverage {
		if !strings.Contains(table, fmt.Sprintf("\n| C%d | ", c.id)) {
			t.Errorf("C%d has no row", c.id)
		}
		named := regexp.MustCompile(fmt.Sprintf(`\bC%d\b[^\n]*: \S`, c.id)).MatchString(before)
		if named != (c.out != "") {
			t.Errorf("C%d is left out: %v; named as such: %v", c.id, c.out != "", named)
		}
	}
}

// texts are the tests of a package, read once.
var texts = map[string]string{}

func cites(t *testing.T, dir string, id int) bool {
	t.Helper()
	if _, read := texts[dir]; !read {
		texts[dir] = testsOf(t, dir)
	}
	return regexp.MustCompile(fmt.Sprintf(`(^|[^.\w])C%d\b|_C%[1]d_`, id)).MatchString(texts[dir])
}

func testsOf(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join("..", dir) // the parts are neighbours
	if dir == "here" {
		path = "."
	} else if _, err := os.Stat(path); err != nil {
		path = filepath.Join("..", "..", dir)
	}
	files, err := filepath.Glob(filepath.Join(path, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		if dir == "here" && f == "coverage_test.go" {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// page is docs/conformance.md.
func page() string {
	var b strings.Builder
	b.WriteString(`# Conformance

Good retry and breaker libraries agree on most cases, and their bug trackers have
the rest. This page lists the cases that gabion is tested with, and where. The cases
marked *machine and front door* are scripts in ` + "`internal/conformance`" + `. Each script
runs twice: on the state machine in virtual time, and through ` + "`gabion.Do`" + `. Both runs
must log the same decisions, which are in
` + "`internal/conformance/testdata/decisions.txt`" + `. The other packages in the list have
tests that name the case.

` + "`go test ./internal/conformance -update`" + ` writes this page, and the ordinary tests check
it. They fail if a case is neither tested nor left out with a reason.

## What is left out

` + leftOut() + `
## All cases

| case | what | where |
|---|---|---|
`)
	for _, c := range coverage {
		fmt.Fprintf(&b, "| C%d | %s | %s |\n", c.id, c.fact, c.where())
	}
	return b.String()
}

// leftOut lists the cases that are left out, wholly or in part, by their reason.
func leftOut() string {
	var reasons []string
	ids := map[string][]string{}
	for _, c := range coverage {
		if c.out == "" {
			continue
		}
		reason := c.out
		if c.in != "" {
			reason = "in part: " + reason
		}
		if ids[reason] == nil {
			reasons = append(reasons, reason)
		}
		ids[reason] = append(ids[reason], fmt.Sprintf("C%d", c.id))
	}
	var b strings.Builder
	for _, r := range reasons {
		fmt.Fprintf(&b, "* %s: %s\n", strings.Join(ids[r], ", "), r)
	}
	return b.String()
}

func (c cover) where() string {
	var where []string
	for _, dir := range strings.Fields(c.in) {
		switch dir {
		case "here":
			where = append(where, "machine and front door")
		case "behaviour":
			where = append(where, "`gabion`")
		default:
			where = append(where, "`"+dir+"`")
		}
	}
	if c.out != "" {
		where = append(where, "left out: "+c.out)
	}
	return strings.Join(where, ", ")
}

func checkPage(t *testing.T) {
	t.Helper()
	testgolden.File(t, "../../docs/conformance.md", page())
}
