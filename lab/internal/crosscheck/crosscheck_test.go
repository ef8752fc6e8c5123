package crosscheck

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/lab"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

var verbose = flag.Bool("disagreements", false, "print each policy on which linter and lab disagree")

// draws is how many policies each rule gets: a thousand in make soak.
func draws() int {
	if os.Getenv("GABION_SOAK") != "" {
		return 1000
	}
	return 24
}

// trial is one policy, the facts about its world, and that world.
type trial struct {
	policy  string // keys of the dependency db
	facts   string // keys of its facts
	program string // keys of the file's own facts
	world   string // a scenario without policies

	// near says that the policy is at the bound of the rule, where one run does not tell:
	// the trial counts and is not judged.
	near bool
}

// outcome is what the lab made of a trial.
type outcome struct {
	report *lab.Report
	events []policy.Event // of the first client
}

func (o *outcome) metric(t *testing.T, key, of, phase string) float64 {
	t.Helper()
	m, _, err := o.report.Metric(0, key, of, phase)
	if err != nil {
		t.Fatal(err)
	}
	return m.Value
}

// count is how many events are of a kind.
func (o *outcome) count(is func(e *policy.Event) bool) (n int) {
	for i := range o.events {
		if is(&o.events[i]) {
			n++
		}
	}
	return n
}

func sent(e *policy.Event) bool  { return e.Kind == policy.KindAttemptSent }
func ended(e *policy.Event) bool { return e.Kind == policy.KindReturned }
func opened(e *policy.Event) bool {
	return e.Kind == policy.KindBreakerMoved && e.To == policy.StateOpen
}

// check holds one rule against the lab.
type check struct {
	rule  string
	least lint.Severity // findings below it are not what the lab is asked about
	draw  func(r *rand.Rand) trial
	shows func(t *testing.T, o *outcome) bool // the lab shows the failure that the rule is about
}

// TestTheLinterAndTheLabAgree draws policies for each rule that the lab can show.
func TestTheLinterAndTheLabAgree(t *testing.T) {
	for _, c := range checks {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(len(c.rule))+uint64(c.rule[3])<<8+uint64(c.rule[2])<<16))
			var warned, silent, near, false1, false2 int
			for i := range draws() {
				try := c.draw(r)
				file, ok := try.file(t)
				if !ok { // not every draw is a policy
					continue
				}
				warns := warns(file, c.rule, c.least)
				if try.near {
					near++
					continue
				}
				shows := c.shows(t, try.play(t, file, uint64(i+1)))
				switch {
				case warns && shows:
					warned++
				case !warns && !shows:
					silent++
				case warns:
					false1++
				default:
					false2++
				}
				if warns != shows && (*verbose || false1+false2 <= 3) {
					t.Errorf("warns %v, and the lab shows it %v:\n%s", warns, shows, try)
				}
			}
			t.Logf("%d warned and shown, %d silent and not shown, %d at the bound", warned, silent, near)
			if false1+false2 > 0 {
				t.Errorf("%d warned of what the lab does not show, and %d silent about what it shows", false1, false2)
			}
			if least := draws() / 12; warned < least || silent < least {
				t.Errorf("the draws are one-sided: %d warned, %d silent", warned, silent)
			}
		})
	}
}

func (try trial) String() string {
	return fmt.Sprintf("policy: {%s}\nfacts: {%s} {%s}\n%s", try.policy, try.facts, try.program, try.world)
}

// file is the file that the user would have written.
func (try trial) file(t *testing.T) (*config.File, bool) {
	t.Helper()
	facts := ""
	if try.facts != "" {
		facts = "facts: {" + try.facts + "}"
	}
	if try.policy != "" && facts != "" {
		facts = ", " + facts
	}
	text := fmt.Sprintf("version: 1\nfacts: {service: shop%s}\ndependencies:\n  db: {%s%s}\n", try.program, try.policy, facts)
	f, found := config.Read("gabion.yaml", []byte(text))
	if len(found) > 0 && !strings.Contains(found[0].Reason, " ") {
		t.Fatal(found)
	}
	return f, len(found) == 0
}

func warns(f *config.File, rule string, least lint.Severity) bool {
	for _, found := range lint.Run([]*config.File{f}, lint.Options{Rules: []string{rule}}).Findings {
		if found.Rule.ID == rule && found.Severity >= least {
			return true
		}
	}
	return false
}

// play runs the policy in its world, in the lab, and reads the recording of the first
// client.
func (try trial) play(t *testing.T, f *config.File, seed uint64) *outcome {
	t.Helper()
	s, err := lab.Parse("world.yaml", []byte("version: 1\ntitle: crosscheck\n"+try.world+"policies:\n  db: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var tape bytes.Buffer
	o := outcome{}
	o.report, err = s.Run(context.Background(), lab.Options{
		Config: f, Alone: true, Seed: seed, Workers: 1,
		Record: &lab.Recording{Open: func(int, string) (io.Writer, error) { return &tape, nil }},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, try)
	}
	for e, err := range record.Read(&tape) {
		if err != nil {
			t.Fatal(err)
		}
		o.events = append(o.events, e)
	}
	return &o
}

// Numbers that are drawn.

func between(r *rand.Rand, low, high int) int { return low + r.IntN(high-low+1) }

func millis(r *rand.Rand, low, high int) time.Duration {
	return time.Duration(between(r, low, high)) * time.Millisecond
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func is(a, within, b float64) bool { return a >= b*(1-within) && a <= b*(1+within) }
