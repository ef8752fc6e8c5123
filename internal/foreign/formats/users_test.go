package formats

import (
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/spelled"
)

// asWritten is a file as its users write it, and what must be said of it.
type asWritten struct {
	format, fact, text string
	routes             string   // the names of the dependencies
	has                []string // "dependency: key value", of what is written
	lacks              []string // the same, of what is not written
	plays              []string // the same, of what the lab plays
	says               []string // "fate: part of a remark"
	silent             []string // parts of what is in no remark
	wrong              string   // a part of a mistake
}

func TestFilesOfUsers(t *testing.T) {
	for _, c := range slices.Concat(ofMeshes, ofLibraries) {
		t.Run(c.format+": "+c.fact, func(t *testing.T) {
			f, err := Find(c.format)
			if err != nil {
				t.Fatal(err)
			}
			c.check(t, Read(f, Source{"a.yaml", []byte(c.text)}))
		})
	}
}

var fateNames = map[foreign.Fate]string{foreign.Kept: "kept", foreign.Nearly: "nearly", foreign.Lost: "lost", foreign.Elsewhere: "stays", foreign.Unknown: "unknown"}

func (c *asWritten) check(t *testing.T, got *Reading) {
	t.Helper()
	if text := got.Wrong.Error(); c.wrong != "" && !strings.Contains(text, c.wrong) || c.wrong == "" && len(got.Wrong) > 0 {
		t.Errorf("mistakes: %s, want %q", text, c.wrong)
	}
	for _, exact := range []bool{false, true} {
		if _, err := config.Parse("gabion.yaml", []byte(got.Write(got.Routes, exact))); err != nil && len(got.Wrong) == 0 {
			t.Errorf("exact %v: %v", exact, err)
		}
	}
	var names []string
	written, played := map[string]bool{}, map[string]bool{}
	for i := range got.Routes {
		r := &got.Routes[i]
		names = append(names, r.Dependency)
		for _, s := range spelled.Written(r.Policy) {
			written[r.Dependency+": "+s.Path+" "+s.Value] = true
		}
		for _, s := range spelled.Written(r.Plays) {
			played[r.Dependency+": "+s.Path+" "+s.Value] = true
		}
	}
	if all := strings.Join(names, " "); c.wrong == "" && all != c.routes {
		t.Errorf("routes %s, want %s", all, c.routes)
	}
	for _, want := range c.has {
		if !written[want] {
			t.Errorf("%s is not written: %v", want, written)
		}
	}
	for _, not := range c.lacks {
		if written[not] {
			t.Errorf("%s is written", not)
		}
	}
	for _, want := range c.plays {
		if !played[want] {
			t.Errorf("%s is not played: %v", want, played)
		}
	}
	for _, not := range c.silent {
		if slices.ContainsFunc(got.Remarks, func(m foreign.Remark) bool { return strings.Contains(m.Text, not) }) {
			t.Errorf("a remark says %s: %+v", not, got.Remarks)
		}
	}
	for _, want := range c.says {
		fate, part, _ := strings.Cut(want, ": ")
		found := false
		for _, m := range got.Remarks {
			found = found || fateNames[m.Fate] == fate && strings.Contains(m.Text, part)
		}
		if !found {
			t.Errorf("no remark %s: %+v", want, got.Remarks)
		}
	}
}
