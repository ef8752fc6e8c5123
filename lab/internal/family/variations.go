package family

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/policy"
)

// variations are scenarios of the library with one thing changed. What a change does
// not apply to has no such variation.
func variations() (made []World) {
	for _, name := range Core {
		text, err := scenario.Text(name)
		if err != nil {
			panic("family: " + err.Error()) // the library is part of the program
		}
		base := plainly(string(text))
		if d, ok := shorter[name]; ok {
			base = durationLine.ReplaceAllString(base, "duration: "+d)
		}
		for _, c := range changes() {
			if changed, ok := c.apply(base); ok {
				made = append(made, World{Name: name + "-" + c.name, Group: "around the library", Text: titled(changed, c.says)})
			}
		}
	}
	return made
}

// shorter are runs of which less is enough: a thousand calls a second, and long quiet
// times.
var shorter = map[string]string{"error-storm": "5m"}

// change is one thing that is changed.
type change struct {
	name, says string
	apply      func(text string) (string, bool)
}

func changes() []change {
	made := []change{
		{"load-50pct", "half the load", func(t string) (string, bool) { return loaded(t, 0.5) }},
		{"load-150pct", "half as much load again", func(t string) (string, bool) { return loaded(t, 1.5) }},
		{"clients-5", "5 clients", func(t string) (string, bool) { return crowded(t, 5) }},
		{"clients-5000", "5000 clients", func(t string) (string, bool) { return crowded(t, 5000) }},
		{"trouble-2s", "trouble of 2 s", func(t string) (string, bool) { return lasting(t, 2*time.Second) }},
		{"trouble-10m", "trouble of 10 min", func(t string) (string, bool) { return lasting(t, 10*time.Minute) }},
		{"dear", "errors cost as much as answers", dear},
	}
	for _, share := range []int{5, 30, 60} {
		says := fmt.Sprintf("%d %% of the answers", share)
		made = append(made, change{"share-" + percent(share), says, func(t string) (string, bool) { return shared(t, share) }})
	}
	return made
}

var (
	countLine    = regexp.MustCompile(`(?m)^    count: (\d+)$`)
	rateLine     = regexp.MustCompile(`(?m)^    rate: ([\d.]+)/s$`)
	rateOfStep   = regexp.MustCompile(`(\{at: [^}]*rate: )([\d.]+)/s`)
	lastsFor     = regexp.MustCompile(`(\{[^}]*\bfor: )(\w+)`)
	rampOfSlow   = regexp.MustCompile(`(\{kind: slow[^}]*\bramp: )(\w+)`)
	durationLine = regexp.MustCompile(`(?m)^duration: (\w+)$`)
	shareOf      = regexp.MustCompile(`share: \d+%`)
	kindOf       = regexp.MustCompile(`(- \{kind: (?:errors|lost_answers)\b)`)
	dropped      = regexp.MustCompile(`(?m)^(assert:\n(?:  .*\n)*|map: .*\n|story: >\n(?:  .*\n)*)`)
	titleLine    = regexp.MustCompile(`(?m)^title: (.*)$`)
)

// plainly is a scenario without what is about its numbers only.
func plainly(text string) string {
	return dropped.ReplaceAllString(strings.TrimSuffix(text, "\n")+"\n", "")
}

// titled says what was changed.
func titled(text, says string) string {
	return titleLine.ReplaceAllString(text, "title: \"$1; "+says+"\"\nstory: Generated. A scenario of the library with one thing changed.")
}

// section returns where a section of a file begins and ends.
func section(text, name string) (from, to int) {
	from = strings.Index("\n"+text, "\n"+name+":\n")
	if from < 0 {
		return 0, 0
	}
	to = from + len(name) + 2
	for to < len(text) && text[to] == ' ' {
		to += strings.IndexByte(text[to:], '\n') + 1
	}
	return from, to
}

// within changes a section, and says whether anything was.
func within(text, name string, do func(string) string) (string, bool) {
	from, to := section(text, name)
	changed := do(text[from:to])
	return text[:from] + changed + text[to:], changed != text[from:to]
}

// times multiplies the number of a match.
func times(number string, by float64) string {
	x, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return number
	}
	return strconv.FormatFloat(x*by, 'g', 6, 64)
}

// loaded multiplies the rates of clients.
func loaded(text string, by float64) (string, bool) {
	return within(text, "clients", func(s string) string {
		s = rateLine.ReplaceAllStringFunc(s, func(m string) string {
			return "    rate: " + times(rateLine.FindStringSubmatch(m)[1], by) + "/s"
		})
		return rateOfStep.ReplaceAllStringFunc(s, func(m string) string {
			parts := rateOfStep.FindStringSubmatch(m)
			return parts[1] + times(parts[2], by) + "/s"
		})
	})
}

// crowded gives the first fleet a number of clients, with the same load in all.
func crowded(text string, clients int) (string, bool) {
	first := true
	return within(text, "clients", func(s string) string {
		return countLine.ReplaceAllStringFunc(s, func(m string) string {
			if !first {
				return m
			}
			first = false
			return "    count: " + strconv.Itoa(clients)
		})
	})
}

// lasting makes all faults and spikes last so long, and the run longer or shorter by as
// much. What comes again and again, or is written by the hour, stays as it is.
func lasting(text string, d time.Duration) (string, bool) {
	if strings.Contains(text, "every:") || strings.Contains(text, "daily:") {
		return text, false
	}
	grown := time.Duration(0)
	set := func(s string) string {
		return lastsFor.ReplaceAllStringFunc(s, func(m string) string {
			parts := lastsFor.FindStringSubmatch(m)
			if old, err := policy.ParseDuration(parts[2]); err == nil {
				grown = max(grown, d-old)
			}
			return parts[1] + length(d)
		})
	}
	gentle := func(s string) string { // nothing grows for longer than it lasts
		return rampOfSlow.ReplaceAllStringFunc(set(s), func(m string) string {
			parts := rampOfSlow.FindStringSubmatch(m)
			if old, err := policy.ParseDuration(parts[2]); err == nil && old > d/2 {
				return parts[1] + length(d/2)
			}
			return m
		})
	}
	text, spikes := within(text, "clients", set)
	text, faults := within(text, "faults", gentle)
	if grown > 0 {
		text = durationLine.ReplaceAllStringFunc(text, func(m string) string {
			old, err := policy.ParseDuration(durationLine.FindStringSubmatch(m)[1])
			if err != nil {
				return m
			}
			return "duration: " + length(old+grown)
		})
	}
	return text, spikes || faults
}

// shared makes errors and lost answers be such a share.
func shared(text string, share int) (string, bool) {
	return within(text, "faults", func(s string) string {
		if !kindOf.MatchString(s) {
			return s
		}
		said := fmt.Sprintf("share: %d%%", share)
		if shareOf.MatchString(s) {
			return shareOf.ReplaceAllString(s, said)
		}
		return kindOf.ReplaceAllString(s, "$1, "+said)
	})
}

// dear makes errors come when the work is done.
func dear(text string) (string, bool) {
	return within(text, "faults", func(s string) string {
		return strings.ReplaceAll(s, "kind: errors,", "kind: errors, after_work: true,")
	})
}
