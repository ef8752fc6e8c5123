package play

import (
	"slices"
	"strings"
	"testing"
)

// sides are what the four clients of a world come to.
func sides(t *testing.T, w World) map[string]*Side {
	t.Helper()
	made := map[string]*Side{}
	for _, name := range []string{"gabion", "plain", "naive", w.Opponent} {
		s, err := w.run(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		made[name] = s
	}
	return made
}

// A claim is a sentence of a story, as numbers. Its scenes are the story's world and its moves.
type claim struct {
	says  string
	holds func(scenes []scene) bool
}

type scene struct{ gabion, plain, naive, other *Side }

func back(s *Side) bool { return !s.Totals.Stuck && s.Totals.After > 0.9 }

// latest is the most requests in a second after the trouble and some time to recover.
func latest(s *Side) float64 { return slices.Max(s.Requests[int(s.To)+10:]) }

var claims = map[string][]claim{
	"retry-storm": {
		{"naive does not come back, and works for callers who have gone", func(s []scene) bool {
			return s[0].naive.Totals.Stuck && s[0].naive.Totals.Wasted > 0.8
		}},
		{"gabion asks for hardly more than plain, and answers more", func(s []scene) bool {
			return s[0].gabion.Totals.Load < 1.1 && s[0].plain.Totals.Load == 1 && s[0].gabion.Totals.Answered > s[0].plain.Totals.Answered+0.02 && back(s[0].gabion)
		}},
		{"without budget and breaker gabion is worse than plain", func(s []scene) bool { return s[1].gabion.Totals.Answered < s[1].plain.Totals.Answered-0.05 }},
		{"with twice the capacity naive comes back", func(s []scene) bool { return back(s[2].naive) }},
	},
	"metastable": {
		{"naive stays down with three requests for one", func(s []scene) bool {
			return s[0].naive.Totals.Stuck && latest(s[0].naive) > 1100 && s[0].naive.Totals.Load > 2.5
		}},
		{"half a second does no harm", func(s []scene) bool { return s[1].naive.Totals.Answered > 0.995 && s[1].gabion.Totals.Answered > 0.995 }},
		{"capacity 900/s is no cure", func(s []scene) bool { return s[2].naive.Totals.Stuck && !s[2].gabion.Totals.Stuck }},
		{"gabion and plain are back, plain sooner", func(s []scene) bool {
			return back(s[0].gabion) && back(s[0].plain) && s[0].plain.Totals.Recovery < s[0].gabion.Totals.Recovery
		}},
	},
	"long-queue": {
		{"naive keeps the queue full of what is of no use", func(s []scene) bool { return s[0].naive.Totals.Stuck && s[0].naive.Totals.Wasted > 0.8 }},
		{"with 50 places even naive comes back", func(s []scene) bool { return back(s[1].naive) && back(s[1].gabion) && back(s[1].plain) }},
	},
	"short-timeout": {
		{"naive answers nothing", func(s []scene) bool { return s[0].naive.Totals.Answered < 0.001 }},
		{"plain fails one call in seven", func(s []scene) bool { return within(1-s[0].plain.Totals.Answered, 1.0/7, 0.02) }},
		{"gabion sends a fifth more and answers most calls, some late", func(s []scene) bool {
			return within(s[0].gabion.Totals.Load, 1.2, 0.03) && s[0].gabion.Totals.Answered > 0.95 && s[0].gabion.Totals.P99 > 1
		}},
		{"with 500 ms all answer everything", func(s []scene) bool {
			return s[1].gabion.Totals.Answered == 1 && s[1].plain.Totals.Answered == 1 && s[1].naive.Totals.Answered == 1 && s[1].other.Totals.Answered == 1
		}},
		{"without budget and breaker gabion falls, too", func(s []scene) bool { return s[3].gabion.Totals.Answered < 0.5 }},
	},
	"layers": {
		{"naive makes some 3,000 requests a second", func(s []scene) bool { return within(s[0].naive.Totals.Peak, 3000, 200) }},
		{"with gabion fewer than two for one", func(s []scene) bool { return s[0].gabion.Totals.Peak < 200 }},
		{"resilience4j does not ask again", func(s []scene) bool { return s[0].other.Totals.Stuck && latest(s[0].other) == 0 }},
		{"one layer is three tries", func(s []scene) bool { return within(s[1].naive.Totals.Peak, 350, 50) }},
	},
	"cold-cache": {
		{"plain, naive and resilience4j stay down", func(s []scene) bool {
			return s[0].plain.Totals.Stuck && s[0].naive.Totals.Stuck && s[0].other.Totals.Stuck && s[0].plain.Totals.Wasted > 0.9
		}},
		{"gabion asks less, and is back", func(s []scene) bool {
			return back(s[0].gabion) && s[0].gabion.Totals.Load < s[0].plain.Totals.Load/2
		}},
		{"with 50 places all come back", func(s []scene) bool {
			return back(s[1].plain) && back(s[1].gabion) && back(s[1].naive) && back(s[1].other)
		}},
		{"who can serve all reads has no outage", func(s []scene) bool { return s[2].plain.Totals.Answered > 0.98 && s[2].gabion.Totals.Answered > 0.98 }},
	},
	"black-hole": {
		{"naive sends three times as many requests", func(s []scene) bool { return within(s[0].naive.Totals.Peak, 3*s[0].plain.Totals.Peak, 150) }},
		{"resilience4j stays down", func(s []scene) bool { return s[0].other.Totals.Stuck }},
		{"gabion sends hardly more than plain and answers a few calls more", func(s []scene) bool {
			return s[0].gabion.Totals.Load < 1.1 && s[0].gabion.Totals.Answered > s[0].plain.Totals.Answered && back(s[0].gabion)
		}},
		{"with two seconds resilience4j comes back", func(s []scene) bool { return back(s[1].other) }},
	},
	"gone": {
		{"no client answers much", func(s []scene) bool {
			return max(s[0].gabion.Totals.During, s[0].plain.Totals.During, s[0].naive.Totals.During, s[0].other.Totals.During) < 0.1
		}},
		{"naive does no harm but three times the requests", func(s []scene) bool {
			return back(s[0].naive) && within(s[0].naive.Totals.Peak, 3*s[0].plain.Totals.Peak, 50)
		}},
		{"gabion answers more than plain near the end", func(s []scene) bool {
			early, late := sum(s[0].gabion.Answers[16:30]), sum(s[0].gabion.Answers[35:40])
			return s[0].gabion.Totals.Answered > s[0].plain.Totals.Answered && early == 0 && late > 0
		}},
	},
	"rate-limit": {
		{"gabion's most requests are fewer than naive's", func(s []scene) bool { return s[0].gabion.Totals.Peak < s[0].naive.Totals.Peak-100 }},
		{"naive answers a little more, for more requests", func(s []scene) bool {
			g, n := s[0].gabion.Totals, s[0].naive.Totals
			return n.Answered > g.Answered && n.Answered < g.Answered+0.02 && n.Load > g.Load+0.05
		}},
		{"all who retry answer more than plain", func(s []scene) bool {
			return min(s[0].gabion.Totals.Answered, s[0].naive.Totals.Answered, s[0].other.Totals.Answered) > s[0].plain.Totals.Answered
		}},
	},
	"slow-replica": {
		{"all who retry answer more than plain", func(s []scene) bool {
			return min(s[0].gabion.Totals.Answered, s[0].naive.Totals.Answered, s[0].other.Totals.Answered) > s[0].plain.Totals.Answered+0.02
		}},
		{"naive answers most", func(s []scene) bool {
			return s[0].naive.Totals.Answered > max(s[0].gabion.Totals.Answered, s[0].other.Totals.Answered)
		}},
		{"a whole retry for a success answers more", func(s []scene) bool { return s[1].gabion.Totals.Answered > s[0].gabion.Totals.Answered }},
		{"one attempt is plain", func(s []scene) bool { return within(s[2].gabion.Totals.Answered, s[2].plain.Totals.Answered, 0.005) }},
	},
	"hedge": {
		{"gabion makes three requests of one and answers half", func(s []scene) bool {
			return within(s[0].gabion.Totals.Load, 3, 0.3) && within(s[0].gabion.Totals.Answered, 0.5, 0.1)
		}},
		{"the others answer all", func(s []scene) bool {
			return min(s[0].plain.Totals.Answered, s[0].naive.Totals.Answered, s[0].other.Totals.Answered) == 1
		}},
		{"with a budget all are answered, and p99 is longer than without hedges", func(s []scene) bool {
			return s[1].gabion.Totals.Answered > 0.999 && s[2].gabion.Totals.Answered == 1 && s[1].gabion.Totals.P99 > s[2].gabion.Totals.P99
		}},
	},
	"restart": {
		{"naive and resilience4j never recover", func(s []scene) bool { return s[0].naive.Totals.Stuck && s[0].other.Totals.Stuck }},
		{"gabion and plain do, in a quarter of a minute", func(s []scene) bool {
			return s[0].gabion.Totals.Recovery <= 15 && s[0].plain.Totals.Recovery <= 15 && s[0].gabion.Totals.Recovery > 0
		}},
	},
}

func within[N ~float64](got, want, by N) bool { return got >= want-by && got <= want+by }

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

func TestWhatStoriesSayIsSo(t *testing.T) {
	stories := Stories()
	if len(stories) < 10 || len(stories) != len(claims) {
		t.Errorf("%d stories, claims of %d", len(stories), len(claims))
	}
	for _, s := range stories {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			var scenes []scene
			worlds := []World{s.World}
			for _, m := range s.Try {
				worlds = append(worlds, m.World)
			}
			for _, w := range worlds {
				if err := w.check(); err != nil {
					t.Fatal(err)
				}
				of := sides(t, w)
				scenes = append(scenes, scene{of["gabion"], of["plain"], of["naive"], of[w.Opponent]})
			}
			if len(claims[s.Name]) < 2 {
				t.Errorf("%d claims are tested", len(claims[s.Name]))
			}
			for _, c := range claims[s.Name] {
				if !c.holds(scenes) {
					t.Errorf("not so: %s", c.says)
					for i, x := range scenes {
						t.Logf("%d gabion %+v", i, x.gabion.Totals)
						t.Logf("%d plain  %+v", i, x.plain.Totals)
						t.Logf("%d naive  %+v", i, x.naive.Totals)
						t.Logf("%d other  %+v", i, x.other.Totals)
					}
				}
			}
			text := strings.Join(s.Text, " ")
			if n := strings.Count(text, ". ") + strings.Count(text, ": "); n > 9 {
				t.Errorf("%d sentences are too long a story", n)
			}
		})
	}
}
