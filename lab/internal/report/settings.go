package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// A part is what belongs together of the settings that differ.
type part struct {
	name string // such as retry, or breaker
	off  int    // the side that has it switched off: 0 or 1; -1 where both have it
	rows []difference
}

// A difference is a setting that differs in the same way for some dependencies.
type difference struct {
	of         []string
	path, a, b string
}

// parts groups the settings that differ: by what they are about, and those that differ
// alike for several dependencies as one. What one side has switched off is a part of its
// own, since nothing that the other side says of it has a counterpart.
func parts(all []scenario.SettingDiff) (list []*part) {
	off := map[string]int{}
	for _, d := range all {
		switch {
		case d.A == "off" && d.B == "":
			off[d.Path] = 0
		case d.B == "off" && d.A == "":
			off[d.Path] = 1
		}
	}
	partOf := func(path string) (name string, side int) {
		for over := path; over != ""; over = over[:max(strings.LastIndexByte(over, '.'), 0)] {
			if side, ok := off[over]; ok {
				return over, side
			}
		}
		name, _, _ = strings.Cut(path, ".")
		return name, -1
	}
	for _, d := range all {
		if _, ok := off[d.Path]; ok && (d.A == "" || d.B == "") {
			continue
		}
		name, side := partOf(d.Path)
		i := slices.IndexFunc(list, func(p *part) bool { return p.name == name && p.off == side })
		if i < 0 {
			i = len(list)
			list = append(list, &part{name: name, off: side})
		}
		p := list[i]
		k := slices.IndexFunc(p.rows, func(r difference) bool { return r.path == d.Path && r.a == d.A && r.b == d.B })
		if k < 0 {
			p.rows = append(p.rows, difference{path: d.Path, a: d.A, b: d.B})
			k = len(p.rows) - 1
		}
		if !slices.Contains(p.rows[k].of, d.Policy) {
			p.rows[k].of = append(p.rows[k].of, d.Policy)
		}
	}
	return list
}

// settings is what differs between the sides' policies.
func (s *sheet) settings() *node {
	list := parts(s.Settings)
	if len(list) == 0 {
		return nil
	}
	n := el("div", "class", "apart").add(words("h3", "", "What differs in the policies"))
	for _, p := range list {
		n.add(s.part(p))
	}
	return n
}

// part is folded where it is long, or where only one side has it.
func (s *sheet) part(p *part) *node {
	const several = 6
	d := el("details", "class", "part")
	text := counted(len(p.rows), "setting") + " differ"
	if len(p.rows) == 1 {
		text += "s"
	}
	if p.off >= 0 {
		text = fmt.Sprintf("off in %s; %s in %s", s.Sides[p.off].Name, counted(len(p.rows), "setting"), s.Sides[1-p.off].Name)
	} else if len(p.rows) <= several {
		d.attr = append(d.attr, "open", "open")
	}
	d.add(el("summary").add(words("b", "", p.name), words("span", "margin", " "+text)))
	dependencies := s.dependencies()
	head := el("tr").add(words("th", "", "setting"))
	for i := range s.Sides {
		if p.off != i {
			head.add(words("th", "", s.Sides[i].Name))
		}
	}
	body := el("tbody")
	for _, r := range p.rows {
		name := el("td").add(words("code", "", r.path))
		if len(r.of) < dependencies {
			name.add(words("span", "margin", " of "+strings.Join(r.of, ", ")))
		}
		row := el("tr").add(name)
		for i, v := range []string{r.a, r.b} {
			if p.off != i {
				row.add(el("td").add(words("code", "", v)))
			}
		}
		body.add(row)
	}
	return d.add(scroll("Settings of "+p.name+" that differ", el("table", "class", "settings").add(el("thead").add(head), body)))
}

// dependencies is how many policies have a setting that differs.
func (s *sheet) dependencies() int {
	var names []string
	for _, d := range s.Settings {
		if !slices.Contains(names, d.Policy) {
			names = append(names, d.Policy)
		}
	}
	return len(names)
}
