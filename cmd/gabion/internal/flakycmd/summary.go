package flakycmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/lab/flaky"
)

// shownFaults is how many faults the introduction lists.
const shownFaults = 12

// introduce says what is served, and what will be wrong when.
func introduce(w io.Writer, p *flaky.Plan, url string, open bool, start string) {
	title := p.Title()
	if title == "" {
		title = p.Name()
	}
	fmt.Fprintf(w, "%s\n  %s of %s at %s, its counts at %s\n", title, p.Service(), p.Name(), url, url+strings.TrimPrefix(flaky.CountsPath, "/"))
	if open {
		fmt.Fprintln(w, "  other machines can reach it")
	}
	faults := p.Faults()
	switch {
	case len(faults) == 0:
		fmt.Fprintln(w, "  nothing will be wrong with it")
	case start == "now":
		fmt.Fprintln(w, "  since now:")
	default:
		fmt.Fprintln(w, "  since the first request:")
	}
	for i, f := range faults {
		if i == shownFaults {
			fmt.Fprintf(w, "    and %d more\n", len(faults)-i)
			break
		}
		until := fmt.Sprintf("%s..%s", short(f.From), short(f.To))
		if f.To >= 744*time.Hour {
			until = "from " + short(f.From)
		}
		fmt.Fprintf(w, "    %-14s %s\n", until, f.Text)
	}
}

func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// summary says what reached the server.
func summary(w io.Writer, c flaky.Counts) {
	fmt.Fprintf(w, "%s in %.1f s, %.2f for each call", cli.Count(c.Requests, "request"), c.Seconds, c.Amplification)
	if c.WithKey < c.Requests {
		fmt.Fprintf(w, " (%d had no idempotency key, and count as a call each)", c.Requests-c.WithKey)
	}
	fmt.Fprintln(w)
	var answers []string
	for _, name := range slices.Sorted(maps.Keys(c.Answers)) {
		answers = append(answers, fmt.Sprintf("%d %s", c.Answers[name], name))
	}
	if c.Silent > 0 {
		answers = append(answers, fmt.Sprintf("%d never", c.Silent))
	}
	if len(answers) > 0 {
		fmt.Fprintf(w, "  answers     %s\n", strings.Join(answers, ", "))
	}
	fmt.Fprintf(w, "  work done   %s, %d of them again under the same key; %d answered again without work\n", cli.Count(c.Executions, "time"), c.Duplicates, c.Replays)
	for i, k := range c.Keys {
		if i == 5 || k.Executions < 2 {
			break
		}
		fmt.Fprintf(w, "    %-40.40q %s, work done %s\n", k.Key, cli.Count(k.Requests, "request"), cli.Count(k.Executions, "time"))
	}
	if c.Gone > 0 {
		fmt.Fprintf(w, "  left        %s did not wait for an answer\n", cli.Count(c.Gone, "caller"))
	}
	if c.Forgotten > 0 {
		fmt.Fprintf(w, "  forgotten   %s, since there were too many: their later requests counted as new calls\n", cli.Count(c.Forgotten, "key"))
	}
}
