package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
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
	want := "healthy 0s, errors 2s, errors +1 3s, lost answers 4s, healthy 6s, reset 8s, healthy again 9s"
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
		{"nothing wrong", "version: 1\n", "nothing goes wrong", cli.ExitFindings},
		{"nothing to compare with", "version: 1\nfaults: [{kind: reset, at: 0s, for: 1s}]\n", "begin it at 1s or later", cli.ExitFindings},
		{"too long", "version: 1\nfaults: [{kind: reset, at: 1s, for: 1h}]\n", "600 s are the most", cli.ExitFindings},
		{"mistakes", "version: 1\nfaults: [{kind: resets, at: 1s, for: 1h}]\n", "did you mean", cli.ExitFindings},
		{"no such file", "", "no such file", cli.ExitFailure},
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

func TestAWrongNameOfAPlanIsAnsweredWithTheRightOnes(t *testing.T) {
	for name, want := range map[string]string{
		"nothing":      "the demo's own plans are outage and free-failures",
		"free-failure": `there is no plan "free-failure": did you mean free-failures?`,
		"outag":        `there is no plan "outag": did you mean outage?`,
	} {
		if _, code, err := loadOutage(name); code != cli.ExitUsage || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d, %v", name, code, err)
		}
	}
}

// The demo's own plans can be played, and the one that is played by default has the head-room
// that the documentation states.
func TestOwnPlans(t *testing.T) {
	files, err := ownPlans.ReadDir("plans")
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	used := map[string]float64{}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".yaml")
		p, code, err := loadOutage(name)
		if err != nil || code != cli.ExitOK {
			t.Fatalf("%s: %d, %v", name, code, err)
		}
		used[name] = load / p.Capacity()
	}
	if share := used[defaultPlan]; share < 0.6 || share > 0.7 {
		t.Errorf("the load is %.2f of the capacity", share)
	}
	if share := used["free-failures"]; share != 0.5 {
		t.Errorf("where failing is free, the load is %.2f of the capacity", share)
	}
}

func TestPlanAt(t *testing.T) {
	plan := smallPlan()
	for _, c := range []struct {
		fact string
		at   time.Duration
		want int
	}{
		{"before the start it is the first", -time.Second, 0},
		{"at the start it is the first", 0, 0},
		{"a phase ends before its end", plan.Phases[0].End, 1},
		{"just before, it is still that phase", plan.Phases[0].End - 1, 0},
		{"after the last it is the last", time.Hour, 2},
	} {
		if _, i := plan.At(c.at); i != c.want {
			t.Errorf("%s: got phase %d, want %d", c.fact, i, c.want)
		}
	}
	if start, end := plan.Fault(); start != plan.Phases[1].Start || end != plan.Phases[1].End {
		t.Errorf("the fault lasts from %s to %s", start, end)
	}
}
