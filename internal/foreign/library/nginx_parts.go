package library

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// nginxPart is one file of a configuration.
type nginxPart struct {
	name string
	all  []directive
	size int  // the number of directives, with those in blocks
	used bool // another one includes it
}

func sizeOf(all []directive) int {
	n := len(all)
	for _, d := range all {
		n += sizeOf(d.block)
	}
	return n
}

// dumped is what nginx -T writes before each file. It leaves include as it is.
var dumped = regexp.MustCompile(`(?m)^# configuration file (\S+):$`)

// nginxParts reads all files, and puts those that others include in their place. What is left is the configuration.
func nginxParts(w *foreign.Walker, f *foreign.File) []directive {
	lines := strings.SplitAfter(string(f.Text), "\n")
	starts := slices.Clone(f.Parts)
	if len(starts) == 0 || starts[0].Line != 1 {
		starts = slices.Insert(starts, 0, foreign.Part{Name: f.Name, Line: 1})
	}
	for i, line := range lines {
		if m := dumped.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			starts = append(starts, foreign.Part{Name: m[1], Line: i + 1})
		}
	}
	slices.SortStableFunc(starts, func(a, b foreign.Part) int { return a.Line - b.Line })
	in := &inclusion{left: maxIncluded}
	for i, s := range starts {
		end := len(lines)
		if i+1 < len(starts) {
			end = starts[i+1].Line - 1
		}
		r := &nginxReader{text: strings.Join(lines[s.Line-1:end], ""), line: s.Line, col: 1}
		r.wrong = func(at *yamlstrict.Tree, reason, proposal string) {
			w.Wrong(&foreign.Value{Path: "nginx", Tree: at, Key: at}, reason, proposal)
		}
		p := &nginxPart{name: s.Name, all: r.all(0)}
		p.size = sizeOf(p.all)
		in.parts = append(in.parts, p)
	}
	made := make([][]directive, len(in.parts))
	for i, p := range in.parts {
		made[i] = in.put(p, p.all, 0)
	}
	var all []directive
	for i, p := range in.parts {
		if !p.used {
			all = append(all, made[i]...)
		}
	}
	return all
}

// The most that include may make of a text.
const (
	maxIncluded = 200_000
	maxDepth    = 10
)

// inclusion puts files into others.
type inclusion struct {
	parts []*nginxPart
	left  int // directives that may still be put somewhere
}

func (in *inclusion) put(from *nginxPart, all []directive, depth int) []directive {
	made := make([]directive, 0, len(all))
	for _, d := range all {
		if d.has {
			d.block = in.put(from, d.block, depth)
		}
		found := false
		for _, p := range in.parts {
			if d.has || d.name() != "include" || len(d.words) < 2 || depth >= maxDepth || p == from || !fits(d.words[1].Text, p.name) {
				continue
			}
			if in.left -= p.size; in.left < 0 {
				break
			}
			found, p.used = true, true
			made = append(made, in.put(p, p.all, depth+1)...)
		}
		if !found {
			made = append(made, d)
		}
	}
	return made
}

// fits reports whether a file is one that a pattern of include means. Files may be given with fewer folders than the
// pattern has, or with more.
func fits(pattern, name string) bool {
	a, b := strings.Split(path.Clean(pattern), "/"), strings.Split(path.Clean(name), "/")
	for i := 1; i <= len(a) && i <= len(b); i++ {
		if ok, err := path.Match(a[len(a)-i], b[len(b)-i]); !ok || err != nil {
			return false
		}
	}
	return true
}
