package play

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab/internal/opponent"
	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// anywhere is a world whose knobs stand anywhere.
func anywhere(r *rand.Rand) World {
	w := usual()
	for _, k := range knobs {
		*k.of(&w) = k.Min + r.IntN(k.Max-k.Min+1)
	}
	w.Call = max(w.Call, w.Attempt, w.Hedge)
	w.Trouble = Trouble(troubles[r.IntN(len(troubles))].Value)
	w.Breaker = r.IntN(2) == 0
	w.Opponent = opponent.All()[r.IntN(len(opponent.All()))].Name
	return w
}

// The page offers two files: both are read by other commands, and hold the same policies.
func TestWhereverTheKnobsStandTheFilesAreRead(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		w := anywhere(r)
		question, err := json.Marshal(map[string]any{"world": w, "files": true})
		if err != nil {
			t.Fatal(err)
		}
		var files Files
		if err := json.Unmarshal(Answer(t.Context(), question), &files); err != nil {
			t.Fatal(err)
		}
		file, err := config.Parse("gabion.yaml", []byte(files.Policy))
		if err != nil {
			t.Fatalf("%+v\n%s\n%v", w, files.Policy, err)
		}
		if len(file.Policies) != w.Layers || file.Policies[service].Retry.Attempts != w.Attempts {
			t.Errorf("%d policies of %d services, %d attempts of %d", len(file.Policies), w.Layers, file.Policies[service].Retry.Attempts, w.Attempts)
		}
		if _, err := scenario.Parse("scenario.yaml", []byte(files.Scenario)); err != nil {
			t.Fatalf("%+v\n%s\n%v", w, files.Scenario, err)
		}
		_, ours, _ := strings.Cut(files.Policy, "dependencies:\n")
		if !strings.Contains(files.Scenario, "policies:\n"+ours) {
			t.Errorf("the files have different policies:\n%s\n%s", files.Policy, files.Scenario)
		}
	}
}

func TestWhereverTheKnobsStandAllSidesRun(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 40 {
		w := anywhere(r)
		w.Clients, w.Rate, w.Outage = 1+w.Clients/100, 10+w.Rate/50, min(w.Outage, 5000) // quick
		side := []string{"gabion", "plain", "naive", w.Opponent}[i%4]
		question, err := json.Marshal(Question{World: &w, Side: side})
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Side
			Problem string
		}
		if err := json.Unmarshal(Answer(t.Context(), question), &s); err != nil || s.Problem != "" {
			t.Errorf("%s of %+v: %v %s", side, w, err, s.Problem)
			continue
		}
		for name, series := range map[string][]float64{"capacity": s.Capacity, "requests": s.Requests, "offered": s.Offered, "answers": s.Answers, "p50": s.P50, "p99": s.P99} {
			if len(series) != 60 {
				t.Errorf("%s of %s has %d seconds of 60", name, side, len(series))
			}
		}
	}
}

func TestQuestionsThatHaveNoAnswer(t *testing.T) {
	for question, want := range map[string]string{
		`{"world": {"attempts": 0}}`:               "attempts is 0: it may be from 1 to 10",
		`{"world": {"trouble": "flood"}}`:          `no trouble "flood"`,
		`{"world": {"call": 100, "attempt": 200}}`: "an attempt can't have more",
		`{"world": {"colour": 1}}`:                 "unknown field",
		`{"side": "nobody's library"}`:             "nobody's library",
		`{`:                                        "can't be read",
		fmt.Sprintf(`{"side": %q}`, strings.Repeat("x", most)): "the question has 1048588 bytes",
	} {
		var a struct{ Problem string }
		if err := json.Unmarshal(Answer(t.Context(), []byte(question)), &a); err != nil || !strings.Contains(a.Problem, want) {
			t.Errorf("%.60s: %v, %.200q", question, err, a.Problem)
		}
	}
}
