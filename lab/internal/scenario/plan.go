package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// planService is what the service of a plan is called.
const planService = "service"

// maxPlan is the size of the largest file of a plan.
const maxPlan = 1 << 20

// usedPlan is a plan that a service of a scenario takes.
type usedPlan struct {
	item
	service int
	file    *File
}

// IsPlan reports whether a text looks like a plan and not like a scenario.
func IsPlan(name string, data []byte) bool {
	doc, found := yamlstrict.Parse(name, data, yamlstrict.Options{})
	if len(found) > 0 {
		return false
	}
	var top struct{ Service, Services, Clients yamlstrict.Node }
	places, _ := doc.Decode(&top)
	_, services := places["services"]
	_, clients := places["clients"]
	return !services && !clients
}

// ParsePlan reads the text of a plan: a service and its faults, in the words of a scenario.
// Names of files count from folder; an empty one means that the text may name none. The
// error is of type [Findings].
func ParsePlan(folder, name string, data []byte) (*File, error) {
	var other *files
	if folder != "" {
		other = &files{folder: folder}
	}
	doc, found := yamlstrict.Parse(name, data, yamlstrict.Options{Scalars: spellings(other)})
	if len(found) > 0 {
		return nil, found
	}
	r := reader{doc: doc, text: string(data), file: &File{Name: name, Text: string(data)}, other: other, plan: true}
	r.readPlan()
	if other != nil {
		r.found = append(r.found, other.found...)
	}
	if len(r.found) > 0 {
		return nil, r.found.Sort()
	}
	return r.file, nil
}

func (r *reader) readPlan() {
	var d plan
	r.places, r.found = r.doc.Decode(&d)
	f := r.file
	f.Title, f.Story, f.Seed, f.duration = strings.TrimSpace(d.Title), strings.TrimSpace(d.Story), 1, time.Duration(d.Duration)
	r.version(d.Version)
	f.services = []namedService{{name: planService}}
	f.order = []int{0}
	v := &f.services[0]
	r.service(v, d.Service)
	r.many("faults", len(d.Faults))
	for _, node := range d.Faults {
		r.fault(node)
	}
	if len(r.found) == 0 {
		r.effectsInPlan(&d)
	}
	for i := range f.faults {
		x := &f.faults[i]
		x.Service = planService
		last := lastOf(time.Duration(x.At), time.Duration(x.For), time.Duration(x.Every), time.Duration(x.Until), f.duration)
		f.duration = max(f.duration, last+time.Duration(x.For))
	}
	f.duration = cmp.Or(f.duration, time.Nanosecond) // nothing is ever wrong
}

// effectsInPlan refuses what can be read and would change nothing.
func (r *reader) effectsInPlan(d *plan) {
	v := &r.file.services[0]
	it := r.decode(v.name, d.Service, new(service))
	it.never("in a plan, which is of one service", "calls", "deadline", "stops_retries", "plan")
	if v.Time.text == "" {
		it.never("for work that takes no time", "by_call", "crowd", "refuse_cost")
	}
	for i, node := range d.Faults {
		r.strikes(r.decode(fmt.Sprintf("fault %d", i+1), node, new(fault)), &r.file.faults[i])
	}
}

// version checks which format a file says that it has.
func (r *reader) version(is int) {
	at, written := r.places["version"]
	switch {
	case !written:
		r.fail(at, "version is missing", fmt.Sprintf("begin with version: %d", Version))
	case is != Version && !at.Wrong:
		r.fail(at, fmt.Sprintf("version %d is not known", is), fmt.Sprintf("write version: %d, or use a newer gabion", Version))
	}
}

// whole is what a fault must not outlast.
func (r *reader) whole() string {
	if r.plan {
		return "plan"
	}
	return "load"
}

// planned makes a service what a plan says.
func (r *reader) planned(it item, v *namedService) {
	if r.plan {
		return // said elsewhere
	}
	for key := range it.places {
		if top, _, _ := strings.Cut(key, "."); top != "plan" && top != "calls" && top != "deadline" && top != "stops_retries" {
			it.fail(key, top+" contradicts plan, which says it", "remove one")
		}
	}
	f, problem := r.other.plan(v.Plan)
	if problem != "" {
		it.fail("plan", fmt.Sprintf("%.60q %s", v.Plan, problem), "a file's name counts from the folder of the scenario file")
		return
	}
	if f == nil {
		return // its own findings say why
	}
	own := v.service
	v.service = f.services[0].service
	v.Calls, v.Deadline, v.StopsRetries, v.Plan = own.Calls, own.Deadline, own.StopsRetries, own.Plan
	for i := range r.file.services {
		if r.file.services[i].name == v.name {
			r.plans = append(r.plans, usedPlan{it, i, f})
		}
	}
}

// plan reads a plan. It is nil where the file has mistakes, which are kept.
func (f *files) plan(name string) (*File, string) {
	if f == nil {
		return nil, noFolder
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.folder, name)
	}
	text, err := readPlan(path)
	if err != nil {
		return nil, "can't be read: " + err.Error()
	}
	made, err := ParsePlan(filepath.Dir(path), path, text)
	if err != nil {
		found, _ := errors.AsType[Findings](err) // it is of no other type
		f.found = append(f.found, found...)
		return nil, ""
	}
	return made, ""
}

func readPlan(path string) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		if at, ok := errors.AsType[*os.PathError](err); ok {
			err = at.Err // the path is said already
		}
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxPlan+1))
	if err == nil && len(text) > maxPlan {
		err = fmt.Errorf("it is larger than %d bytes", maxPlan)
	}
	return text, err
}

// faultsOfPlans puts the faults of plans after the scenario's own.
func (r *reader) faultsOfPlans() {
	for _, p := range r.plans {
		for i, x := range p.file.faults {
			x.service, x.Service = p.service, r.file.services[p.service].name
			last := lastOf(time.Duration(x.At), time.Duration(x.For), time.Duration(x.Every), time.Duration(x.Until), p.file.duration)
			if end := last + time.Duration(x.For); end > r.file.duration && r.file.duration > 0 {
				p.fail("plan", fmt.Sprintf("fault %d of %s ends at %s, after the load", i+1, p.file.Name, end), "make the duration longer")
			}
			if x.Every > 0 && x.Until == 0 {
				x.Until = span(last)
			}
			r.file.faults = append(r.file.faults, x)
		}
	}
}

// Services returns the names of the services, in the order of the file.
func (f *File) Services() []string {
	names := make([]string, len(f.services))
	for i := range f.services {
		names[i] = f.services[i].name
	}
	return names
}

// Duration is how long load is offered; of a plan, how long it goes on.
func (f *File) Duration() time.Duration { return f.duration }

// Marks are what goes wrong, and when.
func (f *File) Marks() []Mark { return f.marks() }

// Live returns a service, by its place among Services, to be asked from outside.
func (f *File) Live(service int, seed uint64) (*sim.Live, error) {
	w, err := f.World()
	if err != nil {
		return nil, err
	}
	return sim.NewLive(w, service, seed)
}

// World returns what the file says, with the scenario's own policies. That of a plan has no
// fleets.
func (f *File) World() (*sim.World, error) {
	w, err := f.world(&Policies{}, asItIs)
	if err != nil {
		return nil, err
	}
	return &w.World, nil
}
