package lab

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
)

// payments is a file whose policy refuses nothing and tries twice: it is worse at load than the
// plain client, and better at answers.
func payments(t *testing.T) *config.File {
	t.Helper()
	f, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies:\n  payments: {timeout: {call: 1h, attempt: 1m}, breaker: off, retry: {attempts: 2, budget: off, backoff: {kind: constant, base: 100ms}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestATournamentIsWhatItsCommandsShow(t *testing.T) {
	o := TournamentOptions{Config: payments(t), Against: []string{"naive"}, Scenarios: []string{"family:flap-1s-of-10s-5x20"}, Replications: 2, Seed: 5}
	tournament, err := RunTournament(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := tournament.Terminal(&text, false); err != nil {
		t.Fatal(err)
	}
	want := "gabion lab run family:flap-1s-of-10s-5x20 --config gabion.yaml --as '*=payments' --against plain --seed 5 --replications 2"
	if !strings.Contains(text.String(), want) {
		t.Fatalf("it does not say %s:\n%s", want, text.String())
	}
	s, err := Load("family:flap-1s-of-10s-5x20")
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), Options{Config: o.Config, As: map[string]string{"*": "payments"}, Rival: Plain, Seed: 5, Replications: 2})
	if err != nil {
		t.Fatal(err)
	}
	for side, name := range []string{"payments", "plain"} {
		goodput, _, err := r.Metric(side, "goodput", "", "")
		if err != nil {
			t.Fatal(err)
		}
		row := ""
		for line := range strings.Lines(text.String()) {
			if strings.HasPrefix(strings.TrimLeft(line, " *"), name+" ") {
				row = line
				break
			}
		}
		if want := fmt.Sprintf(" %.2f", 100*goodput.Value); !strings.Contains(row, want) {
			t.Errorf("%s answers %s %% in lab run, and the tournament says %q", name, want, row)
		}
	}
}

func TestACandidateForAllPolicies(t *testing.T) {
	s, err := Load("layered-retries")
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), Options{Config: payments(t), As: map[string]string{"*": "payments"}, Replications: 1, Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.study.Sides[0].Policies {
		values := map[string]string{}
		for _, v := range p.Settings {
			values[v.Path] = v.Value
		}
		if values["retry.attempts"] != "2" || p.Name == "database" && values["timeout.attempt"] != "500ms" || p.Name == "orders" && values["timeout.call"] != "8s" {
			t.Errorf("%s goes by %s tries and timeouts of %s and %s", p.Name, values["retry.attempts"], values["timeout.call"], values["timeout.attempt"])
		}
	}
	for fact, o := range map[string]Options{
		"a dependency that is not there": {Config: payments(t), As: map[string]string{"*": "billing"}},
		"another name besides":           {Config: payments(t), As: map[string]string{"*": "payments", "db": "payments"}},
		"no file":                        {As: map[string]string{"*": "payments"}},
		"not there in the other file":    {Config: payments(t), Against: payments(t), As: map[string]string{"*": "payments"}, AgainstAs: map[string]string{"*": "billing"}},
	} {
		if _, err := s.Run(t.Context(), o); err == nil {
			t.Errorf("%s is no mistake", fact)
		}
	}
}

func TestGeneratedScenariosAreLoadedByName(t *testing.T) {
	all, err := Families()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(all[0].Name)
	if err != nil || s.Title() != all[0].Title || s.Name() != all[0].Name {
		t.Errorf("%+v is %v, %v", all[0], s, err)
	}
	if _, err := Parse("stdin", []byte(s.Text())); err != nil {
		t.Error(err)
	}
	if _, err := Load("family:nothing"); err == nil || !strings.Contains(err.Error(), "--families") {
		t.Error(err)
	}
}

func TestOpponentsAreRivals(t *testing.T) {
	for _, o := range Opponents() {
		r := runSmall(t, Options{Rival: o.Name, Replications: 1})
		if got := r.study.Sides[1].Name; got != o.Name {
			t.Errorf("%s plays as %q", o.Name, got)
		}
	}
	s, err := Parse("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), Options{Rival: "poly"}); !errors.Is(err, ErrNoOpponent) || !strings.Contains(err.Error(), "did you mean polly?") {
		t.Error(err)
	}
	if _, err := RunTournament(t.Context(), TournamentOptions{Against: []string{"poly"}}); !errors.Is(err, ErrNoOpponent) {
		t.Error(err)
	}
	if _, err := RunTournament(t.Context(), TournamentOptions{Scenarios: []string{"eror-storm"}}); err == nil || !strings.Contains(err.Error(), "did you mean error-storm?") {
		t.Error(err)
	}
}
