package play

import (
	"context"
	"fmt"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/foreign/formats"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/policy"
)

// theirsSide is the name of the side that plays a file.
const theirsSide = "theirs"

// File is a file of another system.
type File struct {
	Name  string `json:"name"`
	Text  string `json:"text"`
	Route int    `json:"route"` // which of its routes plays
}

// Theirs says what a file is.
type Theirs struct {
	Format string   `json:"format"`
	Title  string   `json:"title"` // of the format
	Routes []string `json:"routes"`
	Policy string   `json:"policy"` // the nearest, as gabion's file
	Said   []Said   `json:"said"`   // of keys that do not mean the same
}

// Said is what became of a key.
type Said struct {
	Line int    `json:"line"`
	Key  string `json:"key"`
	Fate string `json:"fate"`
	Text string `json:"text"`
}

var fates = map[foreign.Fate]string{foreign.Nearly: "nearly the same", foreign.Lost: "lost", foreign.Unknown: "not known"}

// theirs reads a file, and plays it if it is asked to.
func (w *World) theirs(ctx context.Context, f *File, side string) (any, error) {
	format, err := formats.Guess(f.Name, []byte(f.Text))
	if err != nil {
		return nil, err
	}
	r := formats.Read(format, formats.Source{Name: f.Name, Text: []byte(f.Text)})
	switch {
	case len(r.Wrong) > 0:
		return nil, r.Wrong
	case f.Route < 0 || f.Route >= len(r.Routes):
		return nil, fmt.Errorf("%s has %d routes with a policy", f.Name, len(r.Routes))
	case side == theirsSide:
		played := r.Routes[f.Route].Played()
		return w.by(ctx, side, scenario.Policies{Name: side, Change: func(p policy.Policy) policy.Policy {
			return widened(foreign.InPlace(played, p))
		}, Repeats: func(string) []string { return r.Routes[f.Route].Repeats }})
	}
	made := Theirs{Format: r.Format, Title: format.Title, Policy: r.Write(r.Routes[f.Route:f.Route+1], false), Said: []Said{}}
	for i := range r.Routes {
		made.Routes = append(made.Routes, r.Routes[i].Title)
	}
	for _, m := range r.Remarks {
		if fate := fates[m.Fate]; fate != "" {
			made.Said = append(made.Said, Said{m.Line, m.Key, fate, m.Text})
		}
	}
	return made, nil
}
