package lint

import (
	"fmt"

	"github.com/gabion-go/gabion/policy"
)

// layerRules are about others that retry, refuse or give up as well.
var layerRules = []Rule{
	{
		ID: "G043", Name: "inner-retries", Severity: Warning, Needs: []string{"facts.inner"},
		Title: "the client under gabion retries as well",
		reads: []string{"retry.attempts"},
		check: (*subject).innerRetries,
	},
	{
		ID: "G044", Name: "mesh-retries", Severity: Warning, Needs: []string{"facts.mesh.attempts"},
		Title: "the mesh retries as well",
		reads: []string{"retry.attempts"},
		check: (*subject).meshRetries,
	},
	{
		ID: "G046", Name: "mesh-timeout", Severity: Warning, Needs: []string{"facts.mesh.timeout"},
		Title: "the mesh gives up before the attempt does",
		reads: []string{"timeout"},
		check: (*subject).meshTimeout,
	},
	{
		ID: "G047", Name: "fallback-habit", Severity: Note, Needs: []string{"facts.fallback"},
		Title: "a fallback that is seldom used is seldom tested",
		reads: []string{"breaker"},
		check: (*subject).fallbackHabit,
	},
}

// manyInLayers is a product of attempts that turns a blip into an outage.
const manyInLayers = 10

func (s *subject) innerRetries() {
	s.layered("facts.inner", s.facts.Inner, "the client below", "switch the client's own retries off (SDKs: maximum attempts 1), since gabion's budget and breaker do not see them")
}

func (s *subject) meshRetries() {
	s.layered("facts.mesh.attempts", s.facts.Mesh.Attempts, "the mesh", "switch the mesh's retries off for this route (Istio: attempts: 0), since gabion's budget and breaker do not see them")
}

func (s *subject) layered(path string, other int, whose, proposal string) {
	own := max(s.p.Retry.Attempts, 1)
	how := Warning
	switch product := float64(own) * float64(other); {
	case other <= 1:
		return
	case own == 1:
		how = Note
	case product >= manyInLayers:
		how = Error
	}
	s.findAs(how, path, fmt.Sprintf("%s × %d of %s = %s of one call", s.count("retry.attempts", own, "attempt"), other, whose, digits(float64(own)*float64(other))), proposal)
}

func (s *subject) meshTimeout() {
	mesh, attempt := s.facts.Mesh.Timeout, s.p.Timeout.Attempt
	if attempt <= 0 || mesh > attempt {
		return
	}
	s.find("facts.mesh.timeout", fmt.Sprintf("facts.mesh.timeout %s ≤ timeout.attempt %s: the mesh answers 504 first, and whether the work was done is unknown", policy.FormatDuration(mesh), s.time("timeout.attempt", attempt)),
		"give the mesh more time than timeout.attempt has: it is there for callers that have none")
}

func (s *subject) fallbackHabit() {
	if !s.facts.Fallback {
		return
	}
	load := "all calls"
	if s.has("facts.rate") && s.has("facts.processes") {
		load = perSecond(s.fleet())
	}
	s.find("facts.fallback", fmt.Sprintf("facts.fallback: when the breaker opens, the fallback gets %s at once: can it, and when was it last tried at that load?", load),
		"let it answer a share of the calls all the time (Share of gabion.Fallback), or fail fast")
}
