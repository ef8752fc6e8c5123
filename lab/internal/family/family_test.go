package family

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

func TestEveryMemberIsAScenario(t *testing.T) {
	form := regexp.MustCompile(`^family:[a-z0-9][a-z0-9.-]*$`)
	seen := map[string]bool{}
	work := 0.0
	for _, w := range All() {
		f, err := Open(w.Name)
		if err != nil {
			t.Errorf("%s: %v\n%s", w.Name, err, w.Text)
			continue
		}
		if seen[w.Name] || !form.MatchString(w.Name) || w.Group == "" {
			t.Errorf("%q is no name, or that of two, or has no group", w.Name)
		}
		seen[w.Name] = true
		work += f.Expected()
	}
	t.Logf("%d scenarios, %.3g pieces of work in one run of each", len(seen), work)
}

// The rows are what tournaments and their readers refer to: names stay.
func TestMembersThatPeopleReferTo(t *testing.T) {
	for name, says := range map[string]string{
		"family:steady-30pct-100x2":             "share: 30%",
		"family:steady-100pct-10000x0.1":        "count: 10000",
		"family:steady-5pct-1x0.02":             "rate: 0.02/s",
		"family:black-hole-10m-100x2":           "for: 10m",
		"family:flap-3s-of-10s-100x2":           "for: 3s, every: 10s",
		"family:cost-work-30pct-100x2":          "after_work: true",
		"family:limit-50pct-said-1000x0.2":      "limit: {rate: 100/s, burst: 20, retry_after: 2s}",
		"family:error-storm-load-150pct":        "rate: 1500/s",
		"family:metastable-collapse-load-50pct": "{at: 20s, for: 5s, rate: 40/s}",
		"family:rush-hour-clients-5":            "count: 20", // the other fleet stays
		"family:short-blip-trouble-10m":         "duration: 13m58s",
		"family:short-blip-trouble-2s":          "",
		"family:one-bad-replica-share-30pct":    "kind: errors, share: 30%",
		"family:lost-answers-share-60pct":       "share: 60%",
		"family:error-storm-dear":               "after_work: true",
		"family:everyday-5pct-60x4":             "rate: 240/s",
		"family:everyday-1pct-1x0.2":            "duration: 3h",
		"family:black-hole-10s-10000x0.02":      "count: 10000",
		"family:humps-50pct-100x2":              "attempt: 1s",
		"family:humps-50pct-attempt-3s-100x2":   "attempt: 3s",
		"family:leak-100x2":                     "ramp: 90s",
		"family:collapse-5x20":                  "kind: slow, factor: 10",
		"family:overload-admitted-300pct-100x2": "admission: {limit: learned}",
		"family:priorities-150pct-5x20":         "priority: low",
		"family:one-of-10-swallows-100x2":       "kind: black_hole, replicas: 1",
		"family:deploy-resets-5x20":             "kind: reset, for: 5s, replicas: 1",
		"family:limit-halved-said-100x2":        "limit: {rate: 150/s, burst: 20, retry_after: 2s}",
		"family:sdk-aws-2026-outage-3s-1x20":    "{to: sdk, fixed: true}",
	} {
		text, err := Text(name)
		if name == "family:short-blip-trouble-2s" { // it is that already
			if !errors.Is(err, ErrUnknown) {
				t.Errorf("%s is there, and is the scenario itself", name)
			}
			continue
		}
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(text), says) {
			t.Errorf("%s does not say %q:\n%s", name, says, text)
		}
	}
}

func TestCoreIsOfTheLibrary(t *testing.T) {
	if len(Core) != 16 {
		t.Errorf("%d scenarios", len(Core))
	}
	for _, name := range Core {
		if _, err := Open(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open("family:nothing"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

func TestExpectedIsAboutWhatARunBegins(t *testing.T) {
	for name, want := range map[string]float64{
		"short-blip":          200 * 240,
		"cron-burst":          300*600 + 9*3*1500,
		"metastable-collapse": 40*120 + 5*40,
	} {
		f, err := scenario.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Expected(); got < 0.95*want || got > 1.05*want {
			t.Errorf("%s: %.0f pieces of work, want about %.0f", name, got, want)
		}
	}
}
