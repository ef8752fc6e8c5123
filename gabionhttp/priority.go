package gabionhttp

import (
	"net/http"

	"github.com/gabion-go/gabion/internal/serving"
	"github.com/gabion-go/gabion/policy"
)

// HeaderPriority says how much a request matters, from hop to hop: low, normal or high.
// Anything else means normal, as if it were absent. A [Transport] sends it to internal
// dependencies only.
const HeaderPriority = "X-Request-Priority"

// priorityTexts are the values of the header, made once.
var priorityTexts = map[policy.Priority][]string{
	policy.PriorityLow: {"low"}, policy.PriorityNormal: {"normal"}, policy.PriorityHigh: {"high"},
}

// priority is the class of a request.
func (a *Admission) priority(r *http.Request) policy.Priority {
	if a.Priority != nil {
		return serving.Bounded(a.Priority(r))
	}
	return serving.ReadPriority(r.Header[HeaderPriority], a.TrustPriority)
}
