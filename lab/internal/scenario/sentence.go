package scenario

import (
	"fmt"
	"math"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/stat"
)

// claim is what a sentence says of one side against the other.
type claim struct {
	text string
	good bool // for the side that the sentence is about
}

// sentence says who wins, for whom, and at what price.
func (s *Study) sentence(j *Judgement) string {
	about, other := &s.Sides[j.B], &s.Sides[j.A]
	sign := 1.0
	if j.Winner == other.Name && j.Points < 0 {
		about, other, sign = other, about, -1
	}
	var good, bad, whom []string
	for i := range j.Heads {
		h := &j.Heads[i]
		c, ok := j.claim(h, sign, other.Name)
		if !ok {
			continue
		}
		if !c.good {
			bad = append(bad, c.text)
			continue
		}
		good = append(good, c.text)
		if who := forWhom[h.Group]; len(whom) == 0 || whom[len(whom)-1] != who {
			whom = append(whom, who)
		}
	}
	switch {
	case s.Replications < 2:
		return fmt.Sprintf("One run says nothing of %s against %s: run more.", about.Name, other.Name)
	case len(good)+len(bad) == 0:
		return fmt.Sprintf("%s and %s do not differ by more than chance explains.", about.Name, other.Name)
	case j.Winner == "" && len(good) > 0 && len(bad) > 0:
		return fmt.Sprintf("Neither %s nor %s wins: %s %s, but %s.", about.Name, other.Name, about.Name, list(good), list(bad))
	case j.Winner == "":
		return fmt.Sprintf("Neither %s nor %s wins: %s %s.", about.Name, other.Name, about.Name, list(append(good, bad...)))
	case len(bad) == 0:
		return fmt.Sprintf("%s wins for %s: it %s.", about.Name, list(whom), list(good))
	}
	return fmt.Sprintf("%s wins for %s: it %s; the price: it %s.", about.Name, list(whom), list(good), list(bad))
}

var forWhom = map[string]string{Callers: "callers", Dependency: "the dependency", Recovery: "recovery", Certainty: "certainty", Effects: "correctness"}

// list joins what is said.
func list(of []string) string {
	if len(of) < 2 {
		return strings.Join(of, "")
	}
	return strings.Join(of[:len(of)-1], ", ") + " and " + of[len(of)-1]
}

// claim says of a headline what is resolved, from the side of B, or of A where sign is
// negative.
func (j *Judgement) claim(h *Weighed, sign float64, other string) (c claim, ok bool) {
	if h.Verdict == stat.Unresolved.String() || h.Weight == 0 {
		return c, false
	}
	mine, its := h.B.Value, h.A.Value
	if sign < 0 {
		mine, its = its, mine
	}
	c.good = (h.Verdict == stat.Better.String()) == (sign > 0)
	d := math.Abs(h.Delta.Value)
	switch h.Key {
	case "goodput":
		c.text = fmt.Sprintf("answers %s points %s in time than %s", points(d), side(mine > its, "more", "fewer"), other) + j.inTheTrouble(sign)
	case "failed_time":
		c.text = fmt.Sprintf("lets each call wait %s %s for nothing", brief(d), side(mine > its, "more", "less"))
		ok = d >= 0.01
		return c, ok
	case "load":
		c.text = fmt.Sprintf("sends %.2f of %s's load", mine/its, other) + side(h.Phase == "during", " in the trouble", "")
		return c, h.Phase == "during" || h.Points != 0
	case "peak":
		c.text = fmt.Sprintf("has a peak afterwards of %.1f times the usual instead of %.1f", mine, its)
		return c, d >= 0.1
	case "recovery":
		c.text = recovers(d, mine, its)
	case "stuck":
		c.text = fmt.Sprintf("stays down in %.3g %% of the runs instead of %.3g %%", 100*mine, 100*its)
	case "doubled_share":
		c.text = fmt.Sprintf("does %s effects again for each 100 messages instead of %s", hundred(mine), hundred(its))
	case "lost_share":
		c.text = fmt.Sprintf("loses %s effects of each 100 messages instead of %s", hundred(mine), hundred(its))
	}
	return c, true
}

// inTheTrouble says what of a difference in answers was in the trouble, where it is
// another one than in all: a trouble of a minute is little of an hour.
func (j *Judgement) inTheTrouble(sign float64) string {
	for i := range j.Heads {
		h := &j.Heads[i]
		if h.Key != "goodput" || h.Phase != "during" || h.Verdict == stat.Unresolved.String() {
			continue
		}
		more := sign*h.Delta.Value > 0
		return fmt.Sprintf(" (in the trouble %s %s)", points(math.Abs(h.Delta.Value)), side(more, "more", "fewer"))
	}
	return ""
}

func recovers(d, mine, its float64) string {
	switch {
	case math.IsInf(mine, 1):
		return "does not recover, in the middle run"
	case math.IsInf(its, 1):
		return "recovers, and the other does not, in the middle run"
	}
	return fmt.Sprintf("recovers %s %s", brief(d), side(mine > its, "later", "earlier"))
}

func side(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// points writes a share as points of a hundred.
func points(x float64) string {
	if x < 0.001 {
		return fmt.Sprintf("%.2f", 100*x)
	}
	return fmt.Sprintf("%.1f", 100*x)
}

// hundred writes how many there are for each hundred.
func hundred(x float64) string {
	if x < 0.1 {
		return fmt.Sprintf("%.2g", 100*x)
	}
	return fmt.Sprintf("%.0f", 100*x)
}

// brief writes seconds.
func brief(x float64) string {
	if x < 1 {
		return fmt.Sprintf("%.0f ms", 1000*x)
	}
	return fmt.Sprintf("%.3g s", x)
}
