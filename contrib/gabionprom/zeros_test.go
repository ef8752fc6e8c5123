package gabionprom_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
	dto "github.com/prometheus/client_model/go"
)

// numbers are the counters of a scrape, by their series.
func numbers(t *testing.T, m *gabionprom.Metrics) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for name, family := range gather(t, m) {
		if family.GetType() != dto.MetricType_COUNTER {
			continue
		}
		for _, one := range family.GetMetric() {
			var labels []string
			for _, l := range one.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			all[name+"{"+strings.Join(labels, ",")+"}"] = one.GetCounter().GetValue()
		}
	}
	return all
}

// byTraffic are the counters whose labels come from traffic, which is what makes them grow
// again and again, and those that the store of dead letters counts.
var byTraffic = []*catalog.Metric{catalog.Calls, catalog.Attempts, catalog.SlowAttempts, catalog.RetriedCalls, catalog.Retries, catalog.DeadPut, catalog.Spent, catalog.SpentAnswers}

// TestCountersBeginAtZero walks the catalog: whatever events come to count, a server that
// scraped before has seen it at zero.
func TestCountersBeginAtZero(t *testing.T) {
	reg, m := registry(t, gabionprom.Config{}, map[string]policy.Policy{"d": {}})
	ctx := t.Context()
	observe := func(e gabion.Event) { e.Dependency, e.Attempt = "d", 1; m.Observe(ctx, e) }
	observe(gabion.Event{Kind: policy.KindKeyDecided, Code: "first"})
	observe(gabion.Event{Kind: policy.KindMessageDisposed, Code: "ack/done"})
	before := numbers(t, m)
	d, _ := reg.Get("d")
	hand, _ := d.Breaker("")
	for range 2 {
		hand.Trip()
		hand.Reset()
	}
	hand.ForceOpen(0)
	hand.Reset()
	hand.Disable(0)
	hand.Reset()
	for range 40 {
		d.Run(ctx, func(context.Context) error { return errDown })
	}
	for _, r := range policy.Reasons() {
		if r.Local() {
			observe(gabion.Event{Kind: policy.KindAttemptRefused, Reason: r})
		}
		if r.Unavailable() {
			observe(gabion.Event{Kind: policy.KindFellBack, Reason: r})
			observe(gabion.Event{Kind: policy.KindReturned, Reason: r})
		}
	}
	for _, r := range []policy.Reason{policy.BudgetExhausted, policy.BulkheadFull, policy.ThrottledLocally, policy.RateLimited, policy.Paced, policy.DeadlineShort} {
		observe(gabion.Event{Kind: policy.KindHedgeSkipped, Reason: r})
	}
	for _, r := range []policy.Reason{policy.None, policy.IdleTimeout, policy.BodyTimeout} {
		observe(gabion.Event{Kind: policy.KindBodyFailed, Reason: r})
	}
	for _, w := range []string{terms.ForBackoff, terms.ForPace, terms.ForRate, terms.ForSlot, terms.ForSuccess} {
		observe(gabion.Event{Kind: policy.KindWaiting, Wait: w})
	}
	for _, cause := range []policy.BreakerCause{breaker.FailureRate, breaker.SlowRate, breaker.Failures, breaker.Consecutive} {
		observe(gabion.Event{Kind: policy.KindBreakerExceeded, Cause: cause})
		observe(gabion.Event{Kind: policy.KindBreakerMoved, From: policy.StateClosed, To: policy.StateOpen, Cause: cause})
	}
	for _, k := range []policy.Kind{policy.KindOutlived, policy.KindPaceSet, policy.KindLimitMoved, policy.KindReloaded,
		policy.KindRetriesSwitched, policy.KindResent, policy.KindLettersLost, policy.KindEventsLost} {
		observe(gabion.Event{Kind: k, Count: 1})
	}
	observe(gabion.Event{Kind: policy.KindAttemptSettled, Reason: policy.AttemptTimeout, Class: policy.ClassTimeout, Slow: true})
	observe(gabion.Event{Kind: policy.KindReturned, Hedges: 2, Hedge: true})
	for _, code := range []string{"replay", "mismatch", "outcome_unknown", "store_unavailable", "in_flight"} {
		observe(gabion.Event{Kind: policy.KindKeyDecided, Code: code})
	}
	for _, r := range []inbox.Cause{inbox.CausePermanent, inbox.CauseAttemptsExhausted, inbox.CauseMismatch, inbox.CauseUnknown, inbox.CauseTooLarge} {
		observe(gabion.Event{Kind: policy.KindMessageDisposed, Code: "dead_letter/" + string(r)})
	}
	d.Observe(gabion.ObserverFunc(func(context.Context, gabion.Event) { panic("another observer") }))
	d.Run(ctx, works)
	adapter.Of(d).Spent([]policy.Spend{{Unit: "requests", Amount: 1, Answers: 1}})

	counted := map[*catalog.Metric]bool{}
	for series, n := range numbers(t, m) {
		name, _, _ := strings.Cut(series, "{")
		metric := catalog.Find(name)
		if n > 0 {
			counted[metric] = true
		}
		if _, there := before[series]; n > 0 && !there && !slices.Contains(byTraffic, metric) {
			t.Errorf("%s is born with %v", series, n)
		}
	}
	for _, metric := range catalog.All() {
		if metric.Type == catalog.Counter && !counted[metric] && !slices.Contains([]*catalog.Metric{catalog.Retries, catalog.DeadPut, catalog.FleetFailed, catalog.Spilled, catalog.Overflow}, metric) {
			t.Errorf("nothing here makes %s count: it says nothing of it", metric.Name)
		}
	}
	for _, zero := range []string{`gabion_partitions_spilled_total{dependency="d"}`, `gabion_label_overflow_total{label="operation"}`} {
		if n, there := before[zero]; !there || n != 0 {
			t.Errorf("%s is not there", zero)
		}
	}
}

// TestTheFirstOpeningIsSeen has promtool evaluate the dashboard's expressions over two
// scrapes of a real breaker, which opens for the first time between them.
func TestTheFirstOpeningIsSeen(t *testing.T) {
	reg, m := registry(t, gabionprom.Config{}, map[string]policy.Policy{"pay": {Breaker: policy.Breaker{Consecutive: 5}, Retry: policy.Retry{Attempts: 1}}})
	pay, _ := reg.Get("pay")
	pay.Run(t.Context(), works)
	before := numbers(t, m)
	for range 5 {
		pay.Run(t.Context(), func(context.Context) error { return errDown })
	}
	after := numbers(t, m)

	var tests strings.Builder
	tests.WriteString("evaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n")
	for _, series := range slices.Sorted(maps.Keys(after)) {
		was := "_"
		if n, there := before[series]; there {
			was = number(n)
		}
		tests.WriteString("      - series: '" + strings.Replace(series, "{", `{job="shop",instance="a",`, 1) + "'\n        values: '" + strings.Repeat(was+" ", 5) + strings.Repeat(number(after[series])+" ", 5) + "'\n")
	}
	tests.WriteString("    promql_expr_test:\n")
	exprs := transitions(t)
	for i, labels := range []string{`{dependency="pay",from="closed",to="open",cause="consecutive"}`, `{dependency="pay"}`} {
		tests.WriteString("      - expr: '(" + exprs[i] + ") > bool 0'\n        eval_time: 7m\n        exp_samples:\n          - labels: '" + labels + "'\n            value: 1\n")
	}
	file := filepath.Join(t.TempDir(), "tests.yaml")
	if err := os.WriteFile(file, []byte(tests.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), testservers.Promtool(t), "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, tests.String())
	}
}

// transitions are the expressions of that panel.
func transitions(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/gabion.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		if p.Title == "Transitions" {
			for _, target := range p.Targets {
				all = append(all, strings.NewReplacer("$job", ".*", "$instance", ".*", "$dependency", ".*").Replace(target.Expr))
			}
		}
	}
	if len(all) < 2 {
		t.Fatalf("the panel has %d lines", len(all))
	}
	return all
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
