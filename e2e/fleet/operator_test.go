package fleet

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	gabionfleet "github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// Two fleets in one store, and the commands of an operator. What differs between stores is how they list fleets and keep records.
func TestAnOperatorOnEachStore(t *testing.T) {
	command := filepath.Join(t.TempDir(), "gabion")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", command, "github.com/gabion-go/gabion/cmd/gabion").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, start := range map[string]func(testing.TB) string{
		"Redis":      func(t testing.TB) string { return "redis://" + testservers.Redis(t) },
		"PostgreSQL": func(t testing.TB) string { return testservers.Postgres(t) },
		"NATS":       func(t testing.TB) string { return testservers.StartOwnNATS(t).DSN },
	} {
		t.Run(name, func(t *testing.T) {
			url := start(t)
			steered, other := operated(t, url, "shop"), operated(t, url, "shop.eu")
			for _, c := range []struct {
				args string
				code int
				want string
			}{
				{"fleet status --fleet shop", 0, "fleet shop: 1 member,"},
				{"fleet status --fleet shpo", 1, "the store has shop, shop.eu; did you mean --fleet shop?"},
				{"fleet status --fleet zebra", 1, "the store has shop, shop.eu\n"},
				{"override payments observe --for 5m --why INC-0 --fleet shopeu", 0, "did you mean --fleet shop"},
				{"override paymnts observe --for 5m --why INC-1 --fleet shop", 0, "did you mean payments?"},
				{"override payments force-open --all --for 5m --why INC-2 --fleet shop", 0, "force-open for payments"},
				{"override payments rate 30/s --for 5m --why INC-3 --fleet shop", 0, "rate 30/s for payments"},
				{"override kill --for 5m --why INC-4 --fleet shop", 0, "retries-off for all dependencies"},
				{"override list --fleet shop", 0, "INC-4"},
				{"override lift nonsense --why x --fleet shop", 1, "no such override is in force"},
			} {
				out, err := exec.CommandContext(t.Context(), command, append(strings.Fields(c.args), "--store", url)...).CombinedOutput()
				code := 0
				if end, is := err.(*exec.ExitError); is {
					code = end.ExitCode()
				}
				if code != c.code || !strings.Contains(string(out), c.want) {
					t.Errorf("%s: exit code %d, want %d and %q in:\n%s", c.args, code, c.code, c.want, out)
				}
			}
			until(t, "all overrides are in force", func() bool {
				st := steered.Stats()
				return st.Main.Breaker.State == policy.StateForcedOpen && st.RetriesOff && st.RateLimit.On && st.RateLimit.Rate > 15
			})
			if st := other.Stats(); st.Main.Breaker.State != policy.StateClosed || st.RetriesOff || st.RateLimit.On {
				t.Errorf("overrides of one fleet are in force in another: %+v", st.RateLimit)
			}
		})
	}
}

// operated joins a fleet with a dependency that has no rate of its own.
func operated(t *testing.T, url, name string) *gabion.Dependency {
	t.Helper()
	store, err := openStore(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gabion.NewRegistry(map[string]policy.Policy{"payments": {}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := gabionfleet.Join(t.Context(), r, store, gabionfleet.Options{Name: name, ID: "m"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d, err := r.Get("payments")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// until waits for what comes by itself.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	ticks, late := time.NewTicker(50*time.Millisecond), time.After(30*time.Second)
	defer ticks.Stop()
	for !is() {
		select {
		case <-ticks.C:
		case <-late:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
