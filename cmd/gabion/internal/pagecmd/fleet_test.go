package pagecmd

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/policy"
)

// member joins a fleet with one dependency, of whose calls some fail.
func member(t *testing.T, store fleet.Store, id, version string, calls, fail int) {
	t.Helper()
	r, err := gabion.NewRegistry(map[string]policy.Policy{"payments": {
		RateLimit: policy.RateLimit{Rate: 1e6, Burst: 1000}, Fleet: policy.Fleet{Rate: true}, Retry: policy.Retry{Attempts: 1}, Breaker: policy.Breaker{Off: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Get("payments")
	if err != nil {
		t.Fatal(err)
	}
	for n := range calls {
		err := d.Run(t.Context(), func(context.Context) error {
			if n < fail {
				return errors.New("no")
			}
			return nil
		})
		if (err != nil) != (n < fail) {
			t.Fatal(err)
		}
	}
	m, err := fleet.Join(context.WithoutCancel(t.Context()), r, store, fleet.Options{Name: "shop", ID: id, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
}

func TestAPageOfAFleet(t *testing.T) {
	store := fleettest.NewMemory()
	page := fleetHandler(inStore(store, "shop"))
	serve := func(path string) (int, string) {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		return w.Code, w.Body.String()
	}
	if code, body := serve("/"); code != http.StatusOK || !strings.Contains(body, "0 members; shares were never divided") {
		t.Errorf("a fleet without members: %d %s", code, body)
	}
	member(t, store, "pod-1", "v1", 40, 1)
	member(t, store, "pod-2", "v1", 40, 1)
	member(t, store, "<pod-3>", "v2", 40, 30)
	if _, err := fleet.Steer(t.Context(), store, "shop", fleet.Override{Dependency: "payments", Action: fleet.LimitRate, Rate: 50, For: fleet.MaxOverride, Who: "ann", Why: "INC-1 <b>"}); err != nil {
		t.Fatal(err)
	}
	code, body := serve("/")
	for _, says := range []string{
		"3 members; shares were divided", `<td class="n">120<td class="n">26.7 %`, "&lt;pod-3&gt;: 75 % of its calls fail, and 2 % of the median member&#39;s",
		"Versions and policies: they differ", "INC-1 &lt;b&gt;", "<td>rate 50/s<td>", "<td>rate<td class=\"n\">1000000",
	} {
		if code != http.StatusOK || !strings.Contains(body, says) {
			t.Errorf("%d, the page does not have %q", code, says)
		}
	}
	if strings.Contains(body, "<pod-3>") {
		t.Error("a member's name is HTML")
	}
	if t.Failed() {
		t.Log(body)
	}
	store.Break(errors.New("it is <gone>"))
	if code, body := serve("/"); code != http.StatusBadGateway || !strings.Contains(body, "The store does not answer: it is &lt;gone&gt;") || !strings.Contains(body, "http-equiv") {
		t.Errorf("without its store: %d %s", code, body)
	}
	store.Break(nil)
	if code, _ := serve("/other"); code != http.StatusNotFound {
		t.Errorf("another path: %d", code)
	}
}

func TestAFleetsPageIsCalledWrongly(t *testing.T) {
	t.Setenv("GABION_FLEET_STORE", "mysql://elsewhere")
	for args, says := range map[string]string{
		"":                                 "--store begins with redis://", // it is the one of the environment
		"calls.jsonl --store redis://h":    "not both",
		"--store mysql://h":                "--store begins with redis://",
		"--store postgres://h --table a;b": "is no table name",
	} {
		var stderr strings.Builder
		if code := cli.Run(t.Context(), Command(), strings.Fields(args), &strings.Builder{}, &stderr); code == cli.ExitOK || !strings.Contains(stderr.String(), says) {
			t.Errorf("%s: code %d, %s", args, code, stderr.String())
		}
	}
}
