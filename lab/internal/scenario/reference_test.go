package scenario

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/testgolden"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// The reference is made of the tables and the structs by which files are read: it names all
// that they know, and nothing else.
func TestReferenceIsGenerated(t *testing.T) {
	r := reference{t: t, docs: comments(t)}
	r.all()
	testgolden.File(t, "../../../docs/lab-reference.md", r.String())
}

// reference is the document that is being written.
type reference struct {
	strings.Builder
	t    *testing.T
	docs map[string]string
}

func (r *reference) linef(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

func (r *reference) all() {
	r.linef("# Scenario files, key by key\n")
	r.linef("<!-- Made by: go generate ./lab/internal/scenario. Change the code, or reference_test.go. -->\n")
	r.linef("[The lab](lab.md) plays scenarios. This page lists everything that a scenario file may contain. `gabion lab show --schema` prints")
	r.linef("the same as a JSON Schema for editors. `gabion lab show error-storm` prints a file to start from. The reader reports every mistake")
	r.linef("with line and caret. A setting without any effect is a mistake.\n")
	r.keys()
	r.values()
	r.distributions()
	r.WriteString(fromFiles)
	r.faults()
	r.metrics()
	r.assertions()
}

// sections are the structs of a file, and where they stand in it.
var sections = []struct {
	of    reflect.Type
	title string
}{
	{reflect.TypeFor[document](), "The file"},
	{reflect.TypeFor[fleet](), "clients: NAME:"},
	{reflect.TypeFor[store](), "clients: NAME: store:"},
	{reflect.TypeFor[queue](), "clients: NAME: queue:"},
	{reflect.TypeFor[loadStep](), "clients: NAME: load: []"},
	{reflect.TypeFor[daily](), "clients: NAME: daily:"},
	{reflect.TypeFor[edge](), "calls: [] of clients and services"},
	{reflect.TypeFor[cache](), "calls: [] cache:"},
	{reflect.TypeFor[connections](), "calls: [] connections:"},
	{reflect.TypeFor[service](), "services: NAME:"},
	{reflect.TypeFor[admission](), "services: NAME: admission:"},
	{reflect.TypeFor[pauses](), "services: NAME: pauses:"},
	{reflect.TypeFor[limit](), "limit: of services and faults"},
	{reflect.TypeFor[quotas](), "services: NAME: quotas:"},
	{reflect.TypeFor[fault](), "faults: []"},
	{reflect.TypeFor[mapping](), "map:"},
	{reflect.TypeFor[plan](), "The file of a plan"},
}

func (r *reference) keys() {
	for _, s := range sections {
		r.linef("## %s\n", s.title)
		r.linef("| key | value | |\n|---|---|---|")
		for _, f := range reflect.VisibleFields(s.of) {
			says := r.docs[s.of.Name()+"."+f.Name]
			if says == "" {
				r.t.Errorf("%s.%s has no comment", s.of.Name(), f.Name)
			}
			r.linef("| `%s` | %s | %s |", yamlstrict.Snake(f.Name), r.kind(f.Type), escaped(says))
		}
		r.linef("")
	}
}

// valueNames are what values are called, and what they look like. A value of another type
// is a word, a list, a section, or plain.
var valueNames = map[reflect.Type][3]string{
	reflect.TypeFor[span]():      {"duration", "`250ms`, `1m30s`", "longer than nothing, at most a month"},
	reflect.TypeFor[instant]():   {"time", "`0s`, `2m`", "since the beginning of the run"},
	reflect.TypeFor[whole]():     {"count", "`3`", "1 to ten million"},
	reflect.TypeFor[slots]():     {"count or learned", "`3`, `learned`", "1 to ten million, or the word"},
	reflect.TypeFor[places]():    {"count or none", "`3`, `none`", "1 to ten million, or the word"},
	reflect.TypeFor[share]():     {"share", "`50%`", "above 0 %, at most 100 %"},
	reflect.TypeFor[percent]():   {"percentage", "`150%`", "above 0 %, at most a thousandfold"},
	reflect.TypeFor[rate]():      {"rate", "`100/s`, `6/m`, `1/h`", "at most a million a second"},
	reflect.TypeFor[factor]():    {"factor", "`0.25`, `3`", "0.001 to 1000"},
	reflect.TypeFor[dist]():      {"distribution", "`exp 20ms`", "of durations: see [below](#distributions)"},
	reflect.TypeFor[window]():    {"times", "`2m..3m`", "from one time to another"},
	reflect.TypeFor[allowance](): {"quota", "`500 requests/1m`, `25 usd/24h window`", "an amount, a unit and a span, 100 ms to 32 days"},
	reflect.TypeFor[usage]():     {"usage", "`900 tokens`, `lognormal 700/5000 tokens`", "a distribution of plain numbers (a number alone, `exp`, `lognormal`, `uniform`, or parts of these), and a unit"},
	reflect.TypeFor[failing]():   {"answer", "`502 60%`, `reset 30%`, `refused 10%`", "a status from 400 to 599 or one of the two words, and a share"},
	reflect.TypeFor[replay]():    {"recording", "`from calls.csv, at time s`", "see [below](#what-was-measured-from-files)"},
}

func (r *reference) kind(t reflect.Type) string {
	if name, ok := valueNames[t]; ok {
		return name[0]
	}
	if s, ok := spellings(nil)[t]; ok {
		if s.Words == nil {
			r.t.Errorf("the reference has no name for %v", t)
		}
		words := strings.Join(s.Words, "`, `")
		return "`" + words + "`"
	}
	switch {
	case t == reflect.TypeFor[yamlstrict.Node](), t.Kind() == reflect.Struct:
		return "section"
	case t.Kind() == reflect.Slice && t.Elem() == reflect.TypeFor[yamlstrict.Node]():
		return "list"
	case t.Kind() == reflect.Slice:
		return "list of " + r.kind(t.Elem())
	case t.Kind() == reflect.Map:
		return "sections by name"
	case t.Kind() == reflect.Bool:
		return "`true`, `false`"
	case t.Kind() == reflect.Int:
		return "number"
	}
	return "text"
}

func (r *reference) values() {
	r.linef("## Values\n\n| | such as | |\n|---|---|---|")
	var lines []string
	for _, v := range valueNames {
		lines = append(lines, fmt.Sprintf("| %s | %s | %s |", v[0], v[1], v[2]))
	}
	slices.Sort(lines)
	r.linef("%s\n\nA duration has units: `ns`, `us`, `ms`, `s`, `m`, `h`. Names of clients and services are lower-case letters, digits, `-` and `_`, at most 40.\n", strings.Join(lines, "\n"))
}

func (r *reference) distributions() {
	pattern := regexp.MustCompile(distPattern())
	r.linef("## Distributions\n\n| such as | |\n|---|---|")
	for _, f := range distForms() {
		if _, problem := (*files)(nil).readDist(f.example, true); problem != "" && f.word != "from" || !pattern.MatchString(f.example) {
			r.t.Errorf("%s can't be read, or is not in the pattern: %s", f.example, problem)
		}
		r.linef("| `%s` | %s |", f.example, f.says)
	}
	r.linef("\n`+ 5ms` after a distribution adds to every draw. `90%% 20ms | 10%% exp 1s` is a mixture: each part has its share, and the shares add up to 100 %%.\n")
}

func (r *reference) faults() {
	says := kindComments(r.t)
	r.linef("## Kinds of faults\n\n| kind | | needs | may have |\n|---|---|---|---|")
	for i, kind := range kinds {
		all, needed := faultKeys(sim.Kind(i))
		may := slices.DeleteFunc(slices.Clone(all), func(key string) bool { return slices.Contains(needed, key) })
		needed = slices.DeleteFunc(needed, func(key string) bool { return key == "kind" })
		r.linef("| `%s` | %s | %s | %s |", kind, says[i], coded(needed), coded(may))
	}
	r.linef("")
}

// kindComments are the comments of the kinds in package sim, with its names of fields as
// keys.
func kindComments(t *testing.T) (says []string) {
	f, err := parser.ParseFile(token.NewFileSet(), "../sim/world.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range f.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST || d.Specs[0].(*ast.ValueSpec).Names[0].Name != "Refuse" {
			continue
		}
		for _, spec := range d.Specs {
			text := strings.TrimSpace(spec.(*ast.ValueSpec).Comment.Text())
			text = strings.ReplaceAll(text, "replaced by Rules", "replaced by `policy`")
			text = regexp.MustCompile(`\b(Factor|Add|For|Status|Limit)\b`).ReplaceAllStringFunc(text, func(s string) string { return "`" + strings.ToLower(s) + "`" })
			says = append(says, text)
		}
	}
	if len(says) != len(kinds) {
		t.Fatalf("%d kinds have a comment, of %d", len(says), len(kinds))
	}
	return says
}

func (r *reference) metrics() {
	f := &File{fleets: []namedFleet{{name: "FLEET", queued: true}, {name: "b", calls: withAll}}, services: []namedService{{name: "SERVICE", service: withQuotas}}, faults: withAnswers}
	r.linef("## Metrics\n\nAssertions, `Report.Metric` and package labtest use these keys.\n\n| metric | | is | better | in phases |\n|---|---|---|---|---|")
	of := map[string]string{"": "", "SERVICE": "(SERVICE)", "FLEET": "(FLEET)"}
	for _, d := range append(f.defs(), ofRun...) {
		about, known := of[d.of]
		if !known {
			continue // as of the other fleet
		}
		better, phased := "less", "yes"
		if d.more {
			better = "more"
		}
		if unphased[d.key] {
			phased = "no"
		}
		r.linef("| `%s%s` | %s | %s | %s | %s |", d.key, about, d.name, unitNames[d.unit], better, phased)
	}
	r.linef("\nGoodput and latencies of a fleet exist if there are at least two fleets, what is said of messages if it has a queue. Time is in seconds. For recovery and retry_tail the median of the runs")
	r.linef("counts, for stuck the share of runs, and for all others the mean.\n")
}

var unitNames = map[string]string{Share: "a share: `95%`", Ratio: "a number: `1.2`", Seconds: "a duration: `300ms`", Count: "a number: `0`"}

func (r *reference) assertions() {
	r.linef("## Assertions\n")
	r.linef("    metric [ \"(\" service or fleet \")\" ] operator value [ quantile ] [ phase [ \"faults\" ] ]\n")
	r.linef("An operator is %s. A value is a share, a duration or a number, like the metric.", coded(operators))
	r.linef("A quantile of the runs (`p50`, `p80`, `p95` …) replaces the mean. Stuck has no quantile, nor has a count compared by `==`.")
	r.linef("A phase is one of %s. The time of trouble is from the first fault or spike to the end of the last,", coded(phases))
	r.linef("unless the key `during` says otherwise. `during faults` is the same as `during`. Without a phase, the assertion is about the whole run")
	r.linef("after the warm-up.\n")
	pattern := regexp.MustCompile(assertionPattern())
	r.linef("| such as | |\n|---|---|")
	for _, a := range [][2]string{
		{"amplification(db) <= 1.2 during faults", "at most 1.2 requests for each that is needed, at db"},
		{"recovery <= 30s p80", "four runs of five recover within half a minute"},
		{"stuck <= 1%", "the probability of staying down"},
		{"goodput >= 99% after", "of all calls that began after the trouble"},
		{"duplicates == 0", "in every run"},
		{"p99 < 300ms before", "of answers"},
	} {
		v := &vocabulary{names: []string{"db"}, phases: true, before: true}
		f := &File{fleets: []namedFleet{{name: "shop"}}, services: []namedService{{name: "db"}}}
		v.defs = slices.Concat(f.defs(), ofRun)
		if _, problem, _ := v.parse(a[0]); problem != "" || !pattern.MatchString(a[0]) {
			r.t.Errorf("%s can't be read: %s", a[0], problem)
		}
		r.linef("| `%s` | %s |", a[0], a[1])
	}
	r.linef("\nAn assertion holds if the whole 95 %% interval is on its side. It fails if the whole interval is on the other side, or if every run")
	r.linef("breaks it. Otherwise it is unresolved.")
}

func coded(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}

func escaped(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s)
}

const fromFiles = `## What was measured, from files

    services:
      db: {time: "from ../measured/db.csv, column took ms"}
    clients:
      shop:
        count: 40
        loop: trace
        replay: "from calls.jsonl, at ts, took http.duration ms, status http.status"
        calls: [{to: db}]

` + "`from FILE`" + ` may replace any distribution, and may be a part of a mixture. The words after the file's name say what to read. The name
is relative to the folder of the scenario file, so a scenario from standard input can't name a file. The ending of the file decides
how it is read:

| file | a line is | what to read |
|---|---|---|
| ` + "`.csv`, `.tsv`" + ` | values between commas (or semicolons), or tabs | ` + "`column took ms`" + `, by its name in the first line, or ` + "`column 2 ms`" + `, by its number |
| ` + "`.jsonl`, `.ndjson`, `.json`" + ` | one JSON object | ` + "`column http.took ms`" + `, a field, or a field of a field |
| all others | one value; empty lines and lines with # are skipped | ` + "`from latencies.txt ms`" + `, only a unit |

A value is a duration with its unit, such as ` + "`12.5ms`" + `, or a number. The unit of numbers (` + "`ns`, `us`, `ms`, `s`, `m`, `h`" + `) follows the
name. A file has at most a million values, and a line at most 64 KiB. A line that can't be read is a mistake. It is reported with its
file, line and a caret.

**Latencies** become a distribution. The values are sorted. The k-th of n is the percentile 100 (k−1)/(n−1), and the distribution is
linear between two values (type 7 of Hyndman and Fan, which R and NumPy use). No draw is below the shortest or above the longest value.
If there are more than ten thousand values, only every n-th is kept, and all of the longest two thousand.

**Recorded calls** are the load of a fleet whose ` + "`loop`" + ` is ` + "`trace`" + `. ` + "`at`" + ` is when a call was made: a number or a duration since any start, or a
date of RFC 3339. The first call is made at 0s, or at the time of ` + "`begin 30s`" + `. The order of the lines does not matter. Calls later
than the duration are not played. The client that makes a call is drawn at random. With ` + "`took`" + ` the service's work for a call takes
that long, instead of its ` + "`time`" + `. With ` + "`status`" + ` it ends with that HTTP status; 0 is a connection that broke, and
` + "`refused`" + ` one that was not made. The workers, queues, networks and faults of the scenario also apply. Timeouts and retries are those of the policy under test. A retry gets what the next
recorded call got, because that was the state of the service at that time.

`
