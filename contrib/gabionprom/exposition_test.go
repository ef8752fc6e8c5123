package gabionprom_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

var errDown = &net.OpError{Op: "dial", Err: errors.New("refused")}

func works(context.Context) error { return nil }

// everything makes a Metrics that has seen something of every kind, by real calls as far
// as they come to it soon.
func everything(t *testing.T) *gabionprom.Metrics {
	t.Helper()
	member, sharing := joined(t)
	c := gabionprom.Config{Fleet: member, Dependencies: []*gabion.Dependency{held(t), stream(t), second(t), sharing}, Letters: full("busy"), Outboxes: map[string]gabionprom.Outbox{"orders": box{}}}
	reg, m := registry(t, c, map[string]policy.Policy{
		"busy": {
			Safe: true, Retry: policy.Retry{Attempts: 3, Backoff: backoff.Const(time.Millisecond)},
			Throttle: policy.Throttle{K: 2}, RateLimit: policy.RateLimit{
				Rate: 1e6, Burst: 1000, Quotas: []policy.Quota{{Unit: "tokens", Amount: 1e6}},
			}, Partitions: policy.Partitions{Max: 1},
		},
		"full": {Safe: true, Timeout: policy.Timeout{Percentile: 0.999}, Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}, Breaker: policy.Breaker{MinCalls: 1}},
	})
	defer m.ConfigLoaded("abc", nil)
	busy, _ := reg.Get("busy")
	adapter.Of(busy).Spent([]policy.Spend{{Unit: "requests", Amount: 1, Answers: 1}})
	full, _ := reg.Get("full")
	ctx := t.Context()
	for range 50 {
		busy.Run(ctx, works, gabion.WithOperation("read"))
	}
	tries := 0
	busy.Run(ctx, func(context.Context) error {
		if tries++; tries == 1 {
			return errDown
		}
		return nil
	})
	for _, host := range []string{"a", "b", "c"} {
		busy.Run(ctx, works, gabion.WithPartition(host))
	}
	full.Run(ctx, func(ctx context.Context) error { return full.Run(ctx, works) }) // the inner one finds it full
	if b, ok := full.Breaker(""); ok {
		b.Trip()
	}
	gabion.DoOr(ctx, full, func(context.Context) (int, error) { return 0, errDown }, gabion.Fallback[int]{
		On: gabion.Unavailable(), Answer: func(context.Context, error) (int, error) { return 1, nil },
	})
	full.Observe(gabion.ObserverFunc(func(context.Context, gabion.Event) { panic("another observer") }))
	full.Run(ctx, works)
	decide(t, m)
	e := gabion.Event{Dependency: "busy"}
	for _, k := range []policy.Kind{policy.KindBodyFailed, policy.KindOutlived, policy.KindHedgeSkipped, policy.KindPaceSet, policy.KindLimitMoved,
		policy.KindReloaded, policy.KindRetriesSwitched, policy.KindResent, policy.KindLettersLost, policy.KindEventsLost, policy.KindBreakerExceeded, policy.KindWaiting} {
		e.Kind, e.Count, e.Wait = k, 1, terms.ForRate
		m.Observe(ctx, e)
	}
	m.Observe(ctx, gabion.Event{Kind: policy.KindReturned, Dependency: "busy", Attempt: 2, Hedges: 1, Reason: policy.BudgetExhausted})
	m.Observe(ctx, gabion.Event{Kind: policy.KindAttemptSettled, Dependency: "busy", Attempt: 1, Reason: policy.AttemptTimeout, Class: policy.ClassTimeout, Slow: true})
	return m
}

// held returns a dependency that has asked for time.
func held(t *testing.T) *gabion.Dependency {
	t.Helper()
	d := gabion.New("held", policy.Policy{}, gabion.WithClassify(func(any, error) policy.Outcome {
		return policy.Outcome{Class: policy.ClassThrottled}.ComeBack(time.Minute)
	}))
	d.Run(t.Context(), func(context.Context) error { return errDown })
	return d
}

// second returns a dependency whose backup does not work.
func second(t *testing.T) *gabion.Dependency {
	t.Helper()
	d := gabion.New("second", policy.Policy{Safe: true, Endpoints: policy.Endpoints{
		Mode: policy.EndpointsOrdered, List: []policy.Endpoint{{Name: "first"}, {Name: "backup"}},
	}})
	for range 5 {
		d.Run(t.Context(), func(context.Context) error { return errDown }, gabion.WithEndpoint("backup"))
	}
	d.Run(t.Context(), works)
	if st := d.Stats(); !st.Endpoints[1].Out || st.Endpoints[0].Out {
		t.Errorf("%+v", st.Endpoints)
	}
	return d
}

// stream returns a dependency with a result that has outlived its attempt's time.
func stream(t *testing.T) *gabion.Dependency {
	t.Helper()
	d := gabion.New("stream", policy.Policy{Timeout: policy.Timeout{Attempt: 10 * time.Millisecond}})
	var open *gabion.Attempt
	for open == nil { // on a machine that is busy it may not come to it in time
		_, open, _ = gabion.Open(t.Context(), d, func(context.Context) (int, error) { return 1, nil })
	}
	t.Cleanup(func() { open.Close(nil) })
	for d.Stats().Outlived == 0 {
		<-time.After(time.Millisecond)
	}
	return d
}

// decide has real keys and messages decided.
func decide(t *testing.T, m *gabionprom.Metrics) {
	t.Helper()
	r, err := idempotency.NewRunner(idempotency.NewMemoryStore(0, 0), idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Stream: m, Name: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	for _, print := range []byte{1, 1, 2} {
		r.Do(t.Context(), idempotency.IDOf("s", "k"), [32]byte{print}, func(context.Context) (idempotency.Result, idempotency.Ending) {
			return idempotency.Result{}, idempotency.EndingSucceeded
		})
	}
	in, err := inbox.New("billing", idempotency.NewMemoryStore(0, 0), inbox.Options{
		RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Stream: m, Name: "billing"},
	})
	if err != nil {
		t.Fatal(err)
	}
	in.Handle(t.Context(), inbox.Message{ID: "1"}, works)
	in.Handle(t.Context(), inbox.Message{ID: "2"}, func(context.Context) error { return inbox.Reject(errDown) })
}

// TestEverySeriesIsInTheCatalog compares both ways: what is exposed has its line in
// docs/metrics.md, and what has a line is exposed.
func TestEverySeriesIsInTheCatalog(t *testing.T) {
	got := scrape(t, everything(t))
	for name, family := range got {
		m := catalog.Find(name)
		if m == nil {
			t.Errorf("%s is exposed and not in the catalog", name)
			continue
		}
		if kind := strings.ToLower(family.GetType().String()); kind != string(m.Type) || family.GetHelp() != m.Help {
			t.Errorf("%s is a %s, %q", name, kind, family.GetHelp())
		}
		for _, s := range family.GetMetric() {
			for _, l := range s.GetLabel() {
				if !m.Has(l.GetName()) {
					t.Errorf("%s has a label %s that the catalog does not know", name, l.GetName())
				}
			}
		}
	}
	for _, m := range catalog.All() {
		if len(got[m.Name].GetMetric()) == 0 {
			t.Errorf("%s is in the catalog and not exposed", m.Name)
		}
	}
}

// Whether a program attaches the metrics by itself, as it once had to, or not: each call is
// counted once.
func TestMetricsObserveWhatTheirConfigHas(t *testing.T) {
	for fact, attach := range map[string]func(*gabion.Registry, *gabion.Dependency, *gabionprom.Metrics){
		"New is enough":                  func(*gabion.Registry, *gabion.Dependency, *gabionprom.Metrics) {},
		"the registry is observed again": func(r *gabion.Registry, _ *gabion.Dependency, m *gabionprom.Metrics) { r.Observe(m) },
		"its dependency is": func(r *gabion.Registry, _ *gabion.Dependency, m *gabionprom.Metrics) {
			d, _ := r.Get("d")
			d.Observe(m)
		},
		"a dependency of the Config is": func(_ *gabion.Registry, alone *gabion.Dependency, m *gabionprom.Metrics) { alone.Observe(m) },
		"and stopped":                   func(r *gabion.Registry, _ *gabion.Dependency, m *gabionprom.Metrics) { r.Observe(m)() },
	} {
		alone := gabion.New("alone", policy.Policy{})
		reg, m := registry(t, gabionprom.Config{Dependencies: []*gabion.Dependency{alone}}, map[string]policy.Policy{"d": {}})
		attach(reg, alone, m)
		d, _ := reg.Get("d")
		d.Run(t.Context(), works)
		alone.Run(t.Context(), works)
		if err := reg.Reload(map[string]policy.Policy{"d": {}, "later": {}}); err != nil {
			t.Fatal(err)
		}
		later, _ := reg.Get("later")
		later.Run(t.Context(), works)
		got := gather(t, m)
		for _, name := range []string{"d", "alone", "later"} {
			if n := got.sum("gabion_calls_total", "dependency="+name); n != 1 {
				t.Errorf("%s: a call of %s counts %v times", fact, name, n)
			}
		}
	}
}

func TestKeysAndMessagesOfRealStoresAreCounted(t *testing.T) {
	m := gabionprom.New(gabionprom.Config{})
	decide(t, m)
	got := scrape(t, m)
	for _, x := range []expect{
		series(1, "gabion_idempotency_total", "dependency=orders", "result=first"),
		series(1, "gabion_idempotency_total", "dependency=orders", "result=replay"),
		series(1, "gabion_idempotency_total", "dependency=orders", "result=mismatch"),
		series(1, "gabion_messages_total", "dependency=billing", "disposition=ack", "reason=done"),
		series(1, "gabion_messages_total", "dependency=billing", "disposition=dead_letter", "reason=permanent"),
	} {
		if sum := got.sum(x.name, x.labels...); sum != x.want {
			t.Errorf("%s%v is %v, want %v", x.name, x.labels, sum, x.want)
		}
	}
}

func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	problems, err := testutil.CollectAndLint(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestPromtoolReadsTheExposition has the program that Prometheus ships read it, too.
func TestPromtoolReadsTheExposition(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(everything(t))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	enc := expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), testservers.Promtool(t), "check", "metrics")
	cmd.Stdin = &text
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestConfigLoaded(t *testing.T) {
	m := gabionprom.New(gabionprom.Config{})
	if got := scrape(t, m); got["gabion_config_last_reload_success"] != nil {
		t.Error("nothing was loaded")
	}
	m.ConfigLoaded("v1", nil)
	first := scrape(t, m)
	m.ConfigLoaded("", errors.New("two findings"))
	second := scrape(t, m)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"loaded", first.sum("gabion_config_last_reload_success"), 1},
		{"refused", second.sum("gabion_config_last_reload_success"), 0},
		{"the old one is in force", second.sum("gabion_config_info", "hash=v1"), 1},
		{"when that was", second.sum("gabion_config_last_reload_success_timestamp_seconds"), first.sum("gabion_config_last_reload_success_timestamp_seconds")},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestBreakersThatAreNotClosedAreNamed(t *testing.T) {
	reg, m := registry(t, gabionprom.Config{MaxPartitions: 3}, map[string]policy.Policy{"d": {Safe: true}})
	d, _ := reg.Get("d")
	for i := range 8 {
		host := fmt.Sprintf("host%d", i)
		d.Run(t.Context(), works, gabion.WithPartition(host))
		if b, _ := d.Breaker(host); i < 5 {
			b.ForceOpen(0)
		}
	}
	got := scrape(t, m)
	for _, x := range []expect{
		series(5, "gabion_breaker_partitions", "state=forced_open"),
		series(3, "gabion_breaker_partitions", "state=closed"), // three hosts: no call named none
		series(4, "gabion_breaker_state", "state=forced_open"),
		series(1, "gabion_breaker_state", "state=forced_open", "partition=_other"),
		series(1, "gabion_breaker_state", "state=closed", "partition="),
		series(1, "gabion_breaker_state", "state=closed"),
		series(2, "gabion_label_overflow_total", "label=partition"),
	} {
		if sum := got.sum(x.name, x.labels...); sum != x.want {
			t.Errorf("%s%v is %v, want %v", x.name, x.labels, sum, x.want)
		}
	}
	if n := len(got["gabion_breaker_state"].GetMetric()); n != 5*6 {
		t.Errorf("%d series of states, want 30", n)
	}
	for i := range 5 {
		b, _ := d.Breaker(fmt.Sprintf("host%d", i))
		b.Reset()
	}
	if n := len(scrape(t, m)["gabion_breaker_state"].GetMetric()); n != 6 {
		t.Errorf("%d series when all are closed again, want the six of the main breaker", n)
	}
}

func TestOnlyBreakersInUseAreCounted(t *testing.T) {
	host := gabion.WithPartition("api.example.com")
	for _, c := range []struct {
		fact  string
		calls [][]gabion.CallOption // and a scrape after each
		trip  bool
		want  map[string]float64
	}{
		{"one host is one breaker", [][]gabion.CallOption{{host}, {host}}, false, map[string]float64{"closed": 1}},
		{"nothing was called yet", nil, false, map[string]float64{"closed": 1}},
		{"calls that name none have one", [][]gabion.CallOption{{}}, false, map[string]float64{"closed": 1}},
		{"and keep it beside the hosts'", [][]gabion.CallOption{{}, {host}}, false, map[string]float64{"closed": 2}},
		{"one that was moved by hand counts", [][]gabion.CallOption{{host}}, true, map[string]float64{"closed": 1, "open": 1}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			reg, m := registry(t, gabionprom.Config{}, map[string]policy.Policy{"d": {Safe: true}})
			d, _ := reg.Get("d")
			if b, ok := d.Breaker(""); ok && c.trip {
				b.Trip()
			}
			for _, o := range c.calls {
				d.Run(t.Context(), works, o...)
				gather(t, m)
			}
			got := gather(t, m)
			for _, state := range []string{"closed", "open"} {
				if n := got.sum("gabion_breaker_partitions", "state="+state); n != c.want[state] {
					t.Errorf("%v are %s, want %v", n, state, c.want[state])
				}
			}
		})
	}
}

// A registry may have a thousand dependencies of which few are called.
func TestHistogramsThatHaveCountedNothingAreNotExposed(t *testing.T) {
	reg, m := registry(t, gabionprom.Config{}, map[string]policy.Policy{"quiet": {}, "busy": {}, "endless": {Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off}}})
	for _, name := range []string{"busy", "endless"} {
		d, _ := reg.Get(name)
		d.Run(t.Context(), works)
	}
	for name, family := range gather(t, m) {
		for _, s := range family.GetMetric() {
			if h := s.GetHistogram(); h != nil && h.GetSampleCount() == 0 {
				t.Errorf("%s%v has counted nothing", name, s.GetLabel())
			}
		}
	}
	if got := gather(t, m); len(got["gabion_deadline_remaining_seconds"].GetMetric()) != 1 {
		t.Error("one dependency has calls with a deadline")
	}
}

// joined is a member of a fleet, and a dependency whose rate is shared.
func joined(t *testing.T) (*fleet.Member, *gabion.Dependency) {
	t.Helper()
	r, err := gabion.NewRegistry(map[string]policy.Policy{"shared": {RateLimit: policy.RateLimit{Rate: 10}, Fleet: policy.Fleet{Rate: true}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := fleet.Join(t.Context(), r, fleettest.NewMemory(), fleet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d, err := r.Get("shared")
	if err != nil {
		t.Fatal(err)
	}
	return m, d
}
