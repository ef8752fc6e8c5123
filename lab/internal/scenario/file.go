package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// Version is the version of the file format that this package reads.
const Version = 1

// File is a scenario without mistakes. It is not changed once it is made, and safe
// for concurrent use.
type File struct {
	Name         string // as it was given to Parse
	Title        string
	Story        string
	Text         string
	Seed         uint64
	Replications int

	warmup, duration, drain, bin time.Duration

	during   window
	fleets   []namedFleet
	services []namedService
	order    []int // of services: callers before those they call
	faults   []namedFault
	asserts  []assertion
	grid     grid
	policies *config.File
	against  *config.File
	rival    string // none or naive, when it is a word
}

// Fleets returns the names of the fleets, in the order of the file.
func (f *File) Fleets() []string {
	names := make([]string, len(f.fleets))
	for i, c := range f.fleets {
		names[i] = c.name
	}
	return names
}

// PolicyNames returns the names of the policies by which something goes, in the order in
// which the file calls by them.
func (f *File) PolicyNames() (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range f.fleets {
		for _, e := range f.fleets[i].calls {
			add(e.Policy)
		}
		add(f.fleets[i].consumes())
	}
	for i := range f.services {
		for _, e := range f.services[i].calls {
			add(e.Policy)
		}
	}
	for i := range f.faults {
		add(f.faults[i].Policy)
	}
	return names
}

type namedFleet struct {
	fleet
	queued bool // there is a broker between load and clients
	shares bool // there is a store
	name   string
	steps  []loadStep
	calls  []namedEdge
	at     yamlstrict.Place
}

type namedService struct {
	service
	name  string
	calls []namedEdge
	at    yamlstrict.Place
}

type namedEdge struct {
	edge
	to int
	at yamlstrict.Place
}

type namedFault struct {
	fault
	kind    sim.Kind
	service int
	fleet   int
}

type grid struct {
	loads, triggers []float64
	replications    int
}

// Finding is one mistake in a file.
type Finding = yamlstrict.Finding

// Findings are all mistakes of a file. It is the type of the error that [Parse]
// returns.
type Findings = yamlstrict.Findings

// nameForm keeps names usable in assertions, in paths and on command lines.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)

// The bounds of a file. Beyond them a run would take too long.
const (
	maxParts  = 100     // fleets, services, faults, assertions
	maxBins   = 100_000 // of a series
	maxVisits = 10_000  // of all services, for one piece of work
	maxWork   = 1e9     // pieces of work in a run
	maxCells  = 400     // of a map
)

// Parse reads the text of a file; name is for messages. It reads no other files: what the
// text takes from one is a mistake. The error is of type [Findings].
func Parse(name string, data []byte) (*File, error) { return parse(name, data, nil) }

// ParseIn is Parse for the text of a file in a folder, from where the names of other files
// count.
func ParseIn(folder, name string, data []byte) (*File, error) {
	return parse(name, data, &files{folder: folder})
}

func parse(name string, data []byte, other *files) (*File, error) {
	r, found := begin(name, data, other)
	if len(found) > 0 {
		return nil, found
	}
	return r.file, nil
}

// begin reads what can be read. The reader is nil for a text that is no YAML.
func begin(name string, data []byte, other *files) (*reader, Findings) {
	asserting := &vocabulary{}
	scalars := spellings(other)
	scalars[assertionType] = yamlstrict.Scalar{Parse: asserting.parse}
	doc, found := yamlstrict.Parse(name, data, yamlstrict.Options{Scalars: scalars})
	if len(found) > 0 {
		return nil, found
	}
	r := &reader{doc: doc, words: asserting, text: string(data), file: &File{Name: name, Text: string(data)}, other: other}
	r.read()
	if other != nil {
		r.found = append(r.found, other.found...)
	}
	return r, r.found.Sort()
}

// reader turns a document into a file.
type reader struct {
	doc    *yamlstrict.Document
	text   string
	file   *File
	words  *vocabulary
	places map[string]yamlstrict.Place // of the document's own keys
	found  Findings
	other  *files
	plan   bool // the document is a plan
	plans  []usedPlan
}

func (r *reader) fail(at yamlstrict.Place, reason, proposal string) {
	r.found = append(r.found, r.doc.Finding(at.Line, at.Col, reason, proposal))
}

func (r *reader) read() {
	var d document
	places, found := r.doc.Decode(&d)
	r.places, r.found = places, append(r.found, found...)
	r.head(&d)
	r.policies(&d)
	for _, name := range r.names("services", d.Services) {
		r.file.services = append(r.file.services, namedService{name: name})
	}
	if len(d.Services) == 0 && !places["services"].Wrong {
		r.fail(places["services"], "there are no services", "write services: {db: {workers: 10, time: exp 20ms}}")
	}
	for i := range r.file.services {
		r.service(&r.file.services[i], d.Services[r.file.services[i].name])
	}
	for _, name := range r.names("clients", d.Clients) {
		r.fleet(name, d.Clients[name])
	}
	if len(d.Clients) == 0 && !places["clients"].Wrong {
		r.fail(places["clients"], "there are no clients", "write clients: {shop: {count: 100, rate: 100/s, calls: [{to: db}]}}")
	}
	r.acyclic(d.Services)
	r.many("faults", len(d.Faults))
	for _, node := range d.Faults {
		r.fault(node)
	}
	r.faultsOfPlans()
	r.grid(&d.Map)
	if len(r.found) > 0 {
		return // assertions name what may have gone missing
	}
	r.bounds()
	r.effects(&d)
	r.many("assert", len(d.Assert))
	r.words.know(r.file)
	for _, node := range d.Assert {
		r.assertion(node)
	}
}

// names returns the names of a section in the order of the file.
func (r *reader) names(section string, nodes map[string]yamlstrict.Node) []string {
	names := make([]string, 0, len(nodes))
	for name, node := range nodes {
		names = append(names, name)
		if !nameForm.MatchString(name) {
			r.fail(node.Key, fmt.Sprintf("%.60q is not a name", name), "write lower-case letters, digits, - and _, at most 40")
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := nodes[a].Key, nodes[b].Key
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Col, y.Col), cmp.Compare(a, b))
	})
	r.many(section, len(names))
	return names
}

func (r *reader) many(section string, n int) {
	if n > maxParts {
		r.fail(r.places[section], fmt.Sprintf("%d entries under %s", n, section), fmt.Sprintf("a file may have %d", maxParts))
	}
}

// head reads what is about the file as a whole.
func (r *reader) head(d *document) {
	f := r.file
	f.Title, f.Story = strings.TrimSpace(d.Title), strings.TrimSpace(d.Story)
	f.Seed, f.Replications = uint64(max(d.Seed, 1)), int(d.Replications)
	f.Replications = cmp.Or(f.Replications, 20)
	r.version(d.Version)
	if f.Title == "" && !r.places["title"].Wrong {
		r.fail(r.places["title"], "there is no title", "say in one line what happens")
	}
	f.duration, f.warmup, f.drain = time.Duration(d.Duration), time.Duration(d.Warmup), time.Duration(d.Drain)
	f.bin, f.during = time.Duration(d.Bin), d.During
	f.drain = cmp.Or(f.drain, 30*time.Second)
	if f.bin == 0 {
		f.bin = max(time.Second, (f.duration / 600).Round(time.Second))
	}
	switch {
	case f.duration == 0 && !r.places["duration"].Wrong:
		r.fail(r.places["duration"], "there is no duration", "write duration: 10m")
	case f.warmup >= f.duration && f.duration > 0:
		r.fail(r.places["warmup"], "warmup is not shorter than the duration", "write less")
	case f.during.to > f.duration && f.duration > 0:
		r.fail(r.places["during"], "during ends after the load", "write less, or make the duration longer")
	case int64((f.duration+f.drain)/f.bin) > maxBins:
		r.fail(r.places["bin"], fmt.Sprintf("%d bins are too many", int64((f.duration+f.drain)/f.bin)), "write a wider bin, such as 1m")
	}
}

// policies reads what the edges go by when no production file is given.
func (r *reader) policies(d *document) {
	r.file.policies = r.section("policies", d.Policies)
	if at, written := r.places["against"]; written && at.Leaf {
		r.file.rival = at.Text
		if !slices.Contains(rivals, at.Text) {
			r.fail(at, fmt.Sprintf("against: %.60q is not known", at.Text), "write none, plain, naive, or policies")
		}
		return
	}
	r.file.against = r.section("against", d.Against)
}

// section reads policies by the reader of the production file, which is shown the
// file with nothing else in it, so that its findings have their places.
func (r *reader) section(key string, node yamlstrict.Node) *config.File {
	none := &config.File{Name: r.file.Name, Policies: map[string]policy.Policy{}}
	at, written := r.places[key]
	if !written || !node.Set() {
		return none
	}
	text, problem := only(r.text, key, at.Line)
	if problem != "" {
		r.fail(at, key+" "+problem, "give it lines of its own")
		return none
	}
	f, err := config.Parse(r.file.Name, []byte(text), config.Lookup(func(string) (string, bool) { return "", false }))
	if found, is := errors.AsType[config.Findings](err); is {
		for _, x := range found {
			r.found = append(r.found, r.doc.Finding(x.Line, x.Col, key+": "+x.Reason, x.Proposal))
		}
		return none
	}
	return f
}

// only returns the text with the lines of one section, as the dependencies of a
// production file, and empty lines for all others.
func only(text, key string, line int) (kept, problem string) {
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
	if line < 1 || line > len(lines) || strings.TrimRight(lines[line-1], " ") != key+":" {
		return "", "is not alone on its line"
	}
	section := make([]string, len(lines))
	section[line-1] = "dependencies:"
	for i := line; i < len(lines); i++ {
		if l := lines[i]; l != "" && !strings.ContainsAny(l[:1], " #") {
			break
		}
		section[i] = lines[i]
	}
	return strings.Join(section, "\n") + "\nversion: 1\n", ""
}
