package scenario

import (
	"os"
	"strings"
	"testing"
)

// figures runs a scenario and returns what it came to in a phase.
func figures(t *testing.T, text string, phase int) func(key, of string) float64 {
	t.Helper()
	f, err := Parse("endpoints.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Run(t.Context(), Options{Replications: 2, Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range s.Sides[0].Broken {
		t.Error(broken)
	}
	return func(key, of string) float64 {
		for _, m := range s.Sides[0].Phases[phase].Metrics {
			if m.Key == key && m.Of == of {
				return float64(m.Mean.Value)
			}
		}
		t.Fatalf("there is no %s(%s)", key, of)
		return 0
	}
}

// Issue 29's measure, in virtual time: services are endpoints of one policy by their names, and one of three is in trouble.
func TestOneOfThreeEndpointsInTrouble(t *testing.T) {
	data, err := os.ReadFile("testdata/endpoints.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	const fault = "{kind: down, service: ap, at: 1m, for: 10m}"
	usual := figures(t, text[:strings.Index(text, "faults:")], 0)
	for _, c := range []struct {
		fact, fault string
		load        float64 // of ap, at most
	}{
		{"refuses", fault, 0.02},
		{"is silent", "{kind: black_hole, service: ap, at: 1m, for: 10m}", 0.02},
		{"fails", "{kind: errors, service: ap, at: 1m, for: 10m}", 0.02},
		{"is ten times slower", "{kind: slow, service: ap, at: 1m, for: 10m, factor: 10}", 1},
	} {
		got := figures(t, strings.Replace(text, fault, c.fault, 1), 1)
		all := got("received", "eu") + got("received", "us") + got("received", "ap")
		share := got("received", "ap") / all
		t.Logf("ap %s: %.3f %% answered, p99 %.0f ms instead of %.0f, %.1f %% of the requests went there", c.fact, 100*got("goodput", ""), 1000*got("p99", ""), 1000*usual("p99", ""), 100*share)
		if got("goodput", "") < 0.995 || got("p99", "") > 2*usual("p99", "") || share > c.load {
			t.Errorf("ap %s: too few are answered, or too late, or it gets too much", c.fact)
		}
	}
}

func TestEndpointsThatAreNoServices(t *testing.T) {
	data, err := os.ReadFile("testdata/endpoints.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ list, says string }{
		{"[eu, us, ap, mars]", "its endpoints mars are no services of the scenario"},
		{"[ap, eu, us]", ""},
	} {
		f, err := Parse("endpoints.yaml", []byte(strings.Replace(string(data), "[eu, us, ap]", c.list, 1)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.world(&Policies{}, asItIs)
		if c.says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.list, err)
		}
	}
}
