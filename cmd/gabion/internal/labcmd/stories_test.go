package labcmd

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/lab"
)

var update = flag.Bool("update", false, "run the stories of docs/lab.md in full, and write down what they come to")

const storiesFile = "testdata/stories.json"

// story is what a command of docs/lab.md comes to.
type story struct {
	Figures map[string]figure // by side, metric and phase: "B goodput after"
	Events  []string          // the hash of the sample's events, of each side
	Sample  map[string]figure
}

// figure is a metric. Null is never, or unknown.
type figure struct {
	Value, Low, High *float64    `json:",omitempty"`
	Modes            *[2]float64 `json:",omitempty"` // when runs end in two ways
}

// stories are the commands, the figures of them that the documentation speaks of, and
// where the sample ends: it is the first run, and no longer than it has to be.
var stories = map[string]struct {
	figures []string
	end     string
}{
	"gabion lab run error-storm":         {[]string{"A amplification during", "B amplification during", "A goodput during", "B goodput during", "A recovery <= 30s p80", "B recovery all"}, "3m35s"},
	"gabion lab run metastable-collapse": {[]string{"A stuck all", "B stuck all", "A amplification after", "B amplification after", "A goodput after", "B goodput after", "A recovery all"}, "2m"},
	"gabion lab run overload":            {overloaded, "2m10s"},
	"gabion lab run admission":           {overloaded, "2m10s"},
	"gabion lab run hedge-that-hurts":    {[]string{"A goodput before", "B goodput before", "A amplification before", "B amplification before", "capacity"}, "3m5s"},
}

// overloaded are the figures of both stories of one overload.
var overloaded = []string{"A goodput during", "B goodput during", "A amplification during", "B amplification during"}

// tell runs a command as a shell would, and returns its figures and the hashes of the
// first run's events.
func tell(t *testing.T, command string, args ...string) (figures map[string]figure, events []string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := cli.Run(t.Context(), Run(), append(args, "--json"), &stdout, &stderr); code > cli.ExitFindings {
		t.Fatalf("%s: exit code %d: %s", command, code, &stderr)
	}
	var study report
	if err := json.Unmarshal(stdout.Bytes(), &study); err != nil {
		t.Fatal(err)
	}
	for _, side := range study.Sides {
		events = append(events, side.Runs[0].Hash)
	}
	figures = map[string]figure{}
	for _, name := range stories[command].figures {
		f, ok := study.figure(name)
		if !ok {
			t.Fatalf("%s has no %s", command, name)
		}
		figures[name] = f
	}
	return figures, events
}

// sample tells the first run of a command's scenario, which ends early.
func sample(t *testing.T, command string) (figures map[string]figure, events []string) {
	t.Helper()
	s, err := lab.Load(words(command)[0])
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^duration: .*$`).ReplaceAllString(s.Text(), "duration: "+stories[command].end)
	return tell(t, command, file(t, "sample.yaml", text), "--replications", "1")
}

// words are what a command is called with.
func words(command string) []string { return strings.Fields(command)[3:] }

type metric struct {
	Key, Of string
	Mean    figure
	Modes   *struct{ Low, High float64 }
}

// report is what the test reads of the JSON.
type report struct {
	Capacity []float64
	Sides    []struct {
		Runs    []struct{ Hash string }
		Metrics []metric
		Phases  []struct {
			Name    string
			Metrics []metric
		}
		Asserts []struct {
			Text     string
			Measured figure
		}
	}
}

func (r *report) figure(name string) (f figure, ok bool) {
	if name == "capacity" {
		return figure{Value: &r.Capacity[0]}, true
	}
	side := &r.Sides[name[0]-'A']
	for _, a := range side.Asserts {
		if a.Text == name[2:] {
			return a.Measured, true
		}
	}
	key, phase, _ := strings.Cut(name[2:], " ")
	all := side.Metrics
	for _, p := range side.Phases {
		if p.Name == phase {
			all = p.Metrics
		}
	}
	i := slices.IndexFunc(all, func(m metric) bool { return m.Key == key && m.Of == "" })
	if i < 0 {
		return f, false
	}
	f = all[i].Mean
	if m := all[i].Modes; m != nil {
		f.Modes = &[2]float64{m.Low, m.High}
	}
	return f, true
}

func number(p *float64) float64 {
	if p == nil {
		return math.Inf(1)
	}
	return *p
}

func known(t *testing.T) (all map[string]story) {
	t.Helper()
	text, err := os.ReadFile(storiesFile)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The figures in docs/lab.md are of twenty runs and more. A sample says whether the
// others are what they were: it is the same event by event, and comes to the same.
func TestTheStoriesAreWhatTheyWere(t *testing.T) {
	if *update {
		all := map[string]story{}
		for command := range stories {
			var s story
			s.Figures, _ = tell(t, command, words(command)...)
			s.Sample, s.Events = sample(t, command)
			all[command] = s
		}
		text, err := json.MarshalIndent(all, "", " ")
		if err == nil {
			err = os.WriteFile(storiesFile, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const again = "if that is meant: go test ./cmd/gabion/internal/labcmd -run Stories -args -update tells what to correct in docs/lab.md"
	all := known(t)
	for command, of := range stories {
		figures, events := sample(t, command)
		if was := all[command].Events; !slices.Equal(events, was) {
			t.Errorf("%s: the events of a sample are %v, and were %v; %s", command, events, was, again)
		}
		for _, name := range of.figures {
			if is, was := number(figures[name].Value), number(all[command].Sample[name].Value); is != was {
				t.Errorf("%s: in a sample, %s is %g, and was %g; %s", command, name, is, was, again)
			}
		}
	}
}

// What docs/lab.md quotes is what the commands come to.
func TestTheStoriesAreQuotedAsTheyAre(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := strings.Join(strings.Fields(string(text)), " ")
	all := known(t)
	storm, collapse, hedge := all["gabion lab run error-storm"].Figures, all["gabion lab run metastable-collapse"].Figures, all["gabion lab run hedge-that-hurts"].Figures
	overload, admission := all["gabion lab run overload"].Figures, all["gabion lab run admission"].Figures
	value := func(f figure) float64 { return number(f.Value) }
	percent := func(f figure) float64 { return 100 * value(f) }
	stays := func(f figure) string {
		return fmt.Sprintf("%.0f (%s to %.1f %%)", 60*value(f), strings.TrimSuffix(fmt.Sprintf("%.1f", 100*number(f.Low)), ".0"), 100*number(f.High))
	}
	ways := collapse["B amplification after"].Modes
	if ways == nil {
		t.Fatal("the naive side of the collapse ends in one way")
	}
	for _, want := range []string{
		fmt.Sprintf("| attempts per call | %.2f | %.2f |", value(storm["A amplification during"]), value(storm["B amplification during"])),
		fmt.Sprintf("| calls that succeed | %.1f %% | %.1f %% |", percent(storm["A goodput during"]), percent(storm["B goodput during"])),
		fmt.Sprintf("send %.1f times the load", value(storm["B amplification during"])),
		fmt.Sprintf("%.0f %% of the usual load", percent(storm["A amplification during"])),
		"are back " + within(value(storm["A recovery <= 30s p80"])) + " in four runs of five",
		fmt.Sprintf("| stays down, of 60 runs | %s | %s |", stays(collapse["A stuck all"]), stays(collapse["B stuck all"])),
		fmt.Sprintf("| attempts per call | %.2f | %.2f or %.2f |", value(collapse["A amplification after"]), ways[0], ways[1]),
		fmt.Sprintf("\"%.0f calls a second succeed\"", 40*value(collapse["B goodput after"])),
		fmt.Sprintf("costs %.0f %% of the calls", 100-percent(collapse["A goodput after"])),
		"half of all runs are back " + within(value(collapse["A recovery all"])),
		overloadRow("neither", overload, "B"), overloadRow("the clients", overload, "A"),
		overloadRow("the service", admission, "B"), overloadRow("both", admission, "A"),
		fmt.Sprintf("| goodput before the trouble | %.0f %% | %.0f %% |", percent(hedge["A goodput before"]), percent(hedge["B goodput before"])),
		fmt.Sprintf("| attempts per call, before | %.2f | %.2f |", value(hedge["A amplification before"]), value(hedge["B amplification before"])),
		fmt.Sprintf("takes %.0f %% of the service", 100*240/value(hedge["capacity"])),
	} {
		if !strings.Contains(docs, want) {
			t.Errorf("docs/lab.md has no %q", want)
		}
	}
	for command := range stories {
		if !strings.Contains(string(text), "    "+command+"\n") {
			t.Errorf("docs/lab.md has no %q", command)
		}
	}
	if got := value(storm["B recovery all"]); got != 0 {
		t.Errorf("naive callers recover from the storm after %g s, and docs/lab.md says that they do at once", got)
	}
}

// within says in how many seconds, none being less than a bin of one.
func within(seconds float64) string {
	if seconds <= 1 {
		return "within a second"
	}
	return fmt.Sprintf("within %.0f seconds", seconds)
}

// overloadRow is a row of the table of the overload.
func overloadRow(who string, figures map[string]figure, side string) string {
	return fmt.Sprintf("| %s | %.1f %% | %.2f |", who, 100*number(figures[side+" goodput during"].Value), number(figures[side+" amplification during"].Value))
}
