package scenario

import (
	"math"
	"strings"
	"testing"
)

const mixed = `version: 1
title: x
duration: 60s
clients:
  shop: {count: 10, rate: 200/s, calls: [{to: db}]}
services:
  db: {time: 1ms}
faults:
  - {kind: errors, service: db, at: 10s, for: 40s, share: 50%, answers: [502 50%, 500 20%, 404 10%, reset 15%, refused 5%]}
policies:
  db: {safe: true, breaker: off, bulkhead: off, pace: off, retry: {attempts: 3, budget: off, backoff: {kind: constant, base: 1ms}}HTTP}
`

// What is sent again after each answer is what production's code says of it, with the policy's lists.
func TestAnswersAreSentAgainAsThePolicySays(t *testing.T) {
	for _, c := range []struct {
		fact, http string
		want       map[string]float64 // none, some or all that are not the last of three
	}{
		{"without lists", "", map[string]float64{"502": 0.8, "500": 0.85, "404": 0, "reset": 0.8, "refused": 0.8}},
		{"a status is permanent", ", http: {permanent: [502]}", map[string]float64{"502": 0, "500": 0.85, "404": 0, "reset": 0.8}},
		{"codes of gRPC", ", grpc: {transient: [INTERNAL], permanent: [UNAVAILABLE]}", map[string]float64{"unavailable": 0, "internal": 0.8, "not_found": 0}},
		{"a status is transient", ", http: {transient: [404, 500]}", map[string]float64{"502": 0.8, "404": 0.8, "500": 0.8}},
	} {
		text := mixed
		if strings.Contains(c.http, "grpc") {
			text = strings.Replace(mixed, "502 50%, 500 20%, 404 10%", "unavailable 50%, internal 20%, not_found 10%", 1)
		}
		s := study(t, strings.Replace(text, "HTTP", c.http, 1), Options{Replications: 2, Alone: true})
		for way, want := range c.want {
			if got := metricOf(t, s, 0, ResentKey+way); math.Abs(got-want) > 0.2 || (got == 0) != (want == 0) {
				t.Errorf("%s: %.2f of %s are sent again, want about %.1f", c.fact, got, way, want)
			}
		}
	}
}

// The list of another system counts in place of the policy's.
func TestAListOfItsOwnDecidesWhatIsSentAgain(t *testing.T) {
	f, err := Parse("x", []byte(strings.Replace(mixed, "HTTP", ", http: {permanent: [502]}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Run(t.Context(), Options{Replications: 2, Alone: true, Policies: Policies{Repeats: func(string) []string { return []string{"404", "502-504", "refused"} }}})
	if err != nil {
		t.Fatal(err)
	}
	for way, again := range map[string]bool{"404": true, "502": true, "refused": true, "500": false, "reset": false} {
		if got := metricOf(t, s, 0, ResentKey+way); (got > 0) != again {
			t.Errorf("%.2f of %s are sent again, want any: %v", got, way, again)
		}
	}
	if _, err := f.Trial(Policies{Repeats: func(string) []string { return []string{"7xx"} }}, Variation{}); err == nil || !strings.Contains(err.Error(), `"7xx" is no failure`) {
		t.Errorf("a list with a mistake: %v", err)
	}
}

func metricOf(t *testing.T, s *Study, side int, key string) float64 {
	t.Helper()
	for _, m := range s.Sides[side].Metrics {
		if m.Key == key {
			return float64(m.Mean.Value)
		}
	}
	t.Fatalf("there is no %s", key)
	return 0
}

func TestAnswersThatCannotBe(t *testing.T) {
	for answers, want := range map[string]string{
		"answers: [502 50%, reset 40%]":             "its shares are 90% together",
		"answers: [502 50%, 502 50%]":               "it says twice how many are 502",
		"answers: [200 100%]":                       "has no answer that fails",
		"answers: [lost 100%]":                      "has no answer that fails",
		"answers: [ok 100%]":                        "has no answer that fails",
		"answers: [502]":                            "is no answer and its share",
		"answers: [502 0%, 503 100%]":               "has a share that",
		"answers: [502 100%], status: 503":          "beside answers",
		"answers: [502 100%], retry_after: 1s":      "none of the answers names a time",
		"answers: [refused 100%], after_work: true": "what was refused was never sent",
		"status: 200":                               "status 200 is not known",
		"status: 502, retry_after: 1s":              "a 502 names no time",
		"answers: [502 100%], factor: 2":            "factor",
	} {
		text := strings.Replace(strings.Replace(mixed, "HTTP", "", 1), "answers: [502 50%, 500 20%, 404 10%, reset 15%, refused 5%]", answers, 1)
		if _, err := Parse("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", answers, err)
		}
	}
}
