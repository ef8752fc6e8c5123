package formats

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// Source is a file.
type Source struct {
	Name string
	Text []byte
}

// Reading is what files of one format say together.
type Reading struct {
	foreign.Import
	Sources []Source
	first   []int // the line at which each source begins
}

// Open reads files of the format of a name; if that is empty it is guessed, of the first file.
// The error says that there is no such format, or is [finding.Findings] of a file that can't
// be read at all.
func Open(name string, sources ...Source) (*Reading, error) {
	if name != "" {
		f, err := Find(name)
		if err != nil {
			return nil, err
		}
		return Read(f, sources...), nil
	}
	for i, s := range sources {
		f, err := Guess(s.Name, s.Text)
		if err != nil {
			return nil, err
		}
		if i > 0 && f.Name != name {
			return nil, noFormat("%s is of the format %s, and %s of %s: read them one after the other", sources[0].Name, name, s.Name, f.Name)
		}
		name = f.Name
	}
	return Open(name, sources...)
}

// Read reads files of one format, as one: what a file says may be about what another one has.
func Read(f foreign.Format, sources ...Source) *Reading {
	r := &Reading{Sources: sources, first: make([]int, len(sources))}
	r.Format = f.Name
	var all bytes.Buffer
	for i, s := range sources {
		if i > 0 {
			all.WriteByte('\n')
		}
		if i > 0 && !f.Plain {
			all.WriteString("---\n")
		}
		r.first[i] = 1 + bytes.Count(all.Bytes(), []byte("\n"))
		all.Write(unix(s.Text))
		if !f.Plain && len(sources) > 1 { // else what one file leaves open would reach into the next
			if _, _, found := yamlstrict.Trees(s.Name, s.Text); len(found) > 0 {
				r.Wrong = append(r.Wrong, found...)
			}
		}
	}
	if len(r.Wrong) > 0 || len(sources) == 0 {
		return r
	}
	text := all.Bytes()
	document, trees, found := yamlstrict.Trees(sources[0].Name, text)
	if len(found) > 0 && (!f.Plain || unreadable(text)) {
		r.Wrong = r.placed(found)
		return r
	}
	if i := bytes.IndexByte(text, 0); f.Plain && i >= 0 {
		line := 1 + bytes.Count(text[:i], []byte("\n"))
		r.Wrong = r.placed(finding.Findings{{File: sources[0].Name, Line: line, Col: i - bytes.LastIndexByte(text[:i], '\n'), Reason: "a zero byte is no text", Proposal: "write the file as UTF-8"}})
		return r
	}
	if f.Plain {
		trees = nil
	}
	file := foreign.File{Name: sources[0].Name, Text: text, Document: document, Documents: trees}
	for i, s := range sources {
		file.Parts = append(file.Parts, foreign.Part{Name: s.Name, Line: r.first[i]})
	}
	r.Import = *f.Read(&file)
	r.Format = f.Name
	r.Wrong = r.placed(r.Wrong)
	slices.SortStableFunc(r.Remarks, func(a, b foreign.Remark) int { return a.Line - b.Line })
	r.name()
	return r
}

// unix writes the ends of lines as one character, so that lines are counted alike.
func unix(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// Place says in which file a line stands, and where there.
func (r *Reading) Place(line int) (name string, own int) {
	i := max(sort.SearchInts(r.first, line+1)-1, 0)
	return r.Sources[i].Name, line - r.first[i] + 1
}

// At spells a place: vs.yaml:12.
func (r *Reading) At(line int) string {
	name, own := r.Place(line)
	return fmt.Sprintf("%s:%d", name, own)
}

// placed gives mistakes the names of their files.
func (r *Reading) placed(found finding.Findings) finding.Findings {
	for i := range found {
		found[i].File, found[i].Line = r.Place(found[i].Line)
	}
	return found.Sort()
}

// name makes names of routes unlike each other.
func (r *Reading) name() {
	used := map[string]bool{}
	for i := range r.Routes {
		name := r.Routes[i].Dependency
		for n := 2; used[name]; n++ {
			name = fmt.Sprintf("%s-%d", r.Routes[i].Dependency, n)
		}
		used[name] = true
		r.Routes[i].Dependency = name
	}
}

// Write writes routes as gabion's file.
func (r *Reading) Write(routes []foreign.Route, exact bool) string {
	above := "from " + r.Format + ":"
	for _, s := range r.Sources {
		above += " " + s.Name
	}
	return foreign.Write(above, routes, exact, r.short)
}

// Lines writes routes as Write does, without comments of places, and says which line of the
// sources each line comes from.
func (r *Reading) Lines(routes []foreign.Route) (text string, from []int) {
	text = foreign.Write("", routes, false, strconv.Itoa)
	all := strings.Split(text, "\n")
	from = make([]int, len(all))
	next := 1
	for i := len(all) - 1; i >= 0; i-- { // a section has the line of its first key
		if _, at, ok := strings.Cut(all[i], " # "); ok && !strings.HasPrefix(strings.TrimSpace(all[i]), "#") {
			if n, err := strconv.Atoi(at); err == nil {
				next = n
			}
		}
		from[i] = next
	}
	return text, from
}

// Text is a line of the only source.
func (r *Reading) Text(line int) string {
	lines := strings.SplitN(string(unix(r.Sources[0].Text)), "\n", line+1)
	if line < 1 || line > len(lines) {
		return ""
	}
	return lines[line-1]
}

// short is At without the folder, where that tells the files apart.
func (r *Reading) short(line int) string {
	name, own := r.Place(line)
	for _, s := range r.Sources {
		if s.Name != name && filepath.Base(s.Name) == filepath.Base(name) {
			return r.At(line)
		}
	}
	return fmt.Sprintf("%s:%d", filepath.Base(name), own)
}

// Find returns the index of the route of a name: its dependency's, its title, or what Choose
// knows.
func (r *Reading) Find(name string) (index int, ok bool) {
	for i := range r.Routes {
		if r.Routes[i].Dependency == name || r.Routes[i].Title == name {
			return i, true
		}
	}
	if r.Choose == nil {
		return 0, false
	}
	return r.Choose(name)
}
