package demo

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/flaky"
)

func outageOf(t *testing.T, text string) *flaky.Plan {
	t.Helper()
	p, err := flaky.Parse("plan.yaml", []byte("version: 1\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPhasesOfAPlan(t *testing.T) {
	plan, err := planOf(outageOf(t, "faults: [{kind: errors, at: 2s, for: 2s}, {kind: lost_answers, at: 3s, for: 3s}, {kind: reset, at: 8s, for: 1s}]"))
	if err != nil {
		t.Fatal(err)
	}
	want := "healthy 0s, errors 2s, errors +1 3s, lost_answers 4s, healthy 6s, reset 8s, healthy again 9s"
	var got []string
	for i, p := range plan.Phases {
		got = append(got, p.Name+" "+p.Start.String())
		if i > 0 && plan.Phases[i-1].End != p.Start {
			t.Errorf("%s does not begin when the one before ends", p.Name)
		}
	}
	if strings.Join(got, ", ") != want || plan.Busy() != 12*time.Second || plan.Total != 14*time.Second {
		t.Errorf("%s, until %v of %v", got, plan.Busy(), plan.Total)
	}
}

func TestPlansThatTheDemoCantPlay(t *testing.T) {
	for _, c := range []struct {
		fact, text, want string
		code             int
	}{
		{"nothing wrong", "version: 1\n", "nothing goes wrong", exitFindings},
		{"nothing to compare with", "version: 1\nfaults: [{kind: reset, at: 0s, for: 1s}]\n", "begin it at 1s or later", exitFindings},
		{"too long", "version: 1\nfaults: [{kind: reset, at: 1s, for: 1h}]\n", "600 s are the most", exitFindings},
		{"mistakes", "version: 1\nfaults: [{kind: resets, at: 1s, for: 1h}]\n", "did you mean", exitFindings},
		{"no such file", "", "no such file", exitFailure},
	} {
		file := filepath.Join(t.TempDir(), "plan.yaml")
		if c.text != "" {
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, code, err := loadOutage(file); code != c.code || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d, %v", c.fact, code, err)
		}
	}
}

// A provider that plays a plan charges what the plan's service works on, and nothing else.
func TestAProviderPlaysAPlan(t *testing.T) {
	for _, c := range []struct {
		plan             string
		status, requests int
		charges          int
	}{
		{"service: {time: 1ms}\nfaults: [{kind: errors, at: 0s, for: 1h, status: 429}]", http.StatusTooManyRequests, 1, 0},
		{"service: {time: 1ms}\nfaults: [{kind: lost_answers, at: 0s, for: 1h}]", 0, 1, 1},
		{"service: {time: 1ms}\nfaults: [{kind: errors, at: 1h, for: 1h}]", http.StatusCreated, 1, 1},
	} {
		outage := outageOf(t, c.plan)
		plan := Plan{Total: time.Hour, Phases: []Phase{{Kind: Played, End: time.Hour}}}
		p, err := startProvider(t.TempDir(), "it", plan, Settings{Seed: 1, Outage: outage}, func() time.Duration { return 0 })
		if err != nil {
			t.Fatal(err)
		}
		resp, err := post(t, p, 7, "key")
		status := 0
		if err == nil {
			status = resp.StatusCode
		}
		if n := charges(t, p, 7); status != c.status || n != c.charges || len(p.seen()) != c.requests {
			t.Errorf("%s: status %d (%v), %d charges, %d requests", c.plan, status, err, n, len(p.seen()))
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}
