package lintcmd

import (
	"cmp"
	"slices"

	"github.com/gabion-go/gabion/cmd/gabion/internal/theirs"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
)

// foreign is a file of another system that was read as the nearest policies.
type foreign struct {
	*theirs.Reading
	from []int // where each line of the policies comes from
}

// foreign reads a file of another system; it returns nil for any other.
func (one *input) foreign() *foreign {
	r := theirs.Read(one.name, one.text)
	if r == nil {
		return nil
	}
	return &foreign{Reading: r}
}

// policies are the nearest that gabion's file says, and the mistakes of the file itself.
func (f *foreign) policies(name string) (*config.File, config.Findings) {
	var broken config.Findings
	for _, w := range f.Wrong {
		broken = append(broken, config.Finding(w))
	}
	text, from := f.Lines(f.Routes)
	f.from = from
	file, found := config.Read(name, []byte(text))
	return file, append(broken, found...)
}

// moved puts findings about policies where the other system's file says it. What is proposed
// is for gabion's file, so nothing is mended.
func moved(found []lint.Finding, files map[string]*foreign) {
	if len(files) == 0 {
		return
	}
	for i := range found {
		f := files[found[i].File]
		if f == nil || found[i].Rule.ID == "G000" {
			continue
		}
		found[i].Fix = nil
		_, line := f.Place(f.from[min(max(found[i].Line, 1), len(f.from))-1])
		found[i].Line, found[i].Col, found[i].Snippet = line, 1, f.Text(line)
		if found[i].Proposal != "" {
			found[i].Proposal = "in gabion's file: " + found[i].Proposal
		}
	}
	slices.SortStableFunc(found, func(a, b lint.Finding) int {
		if a.File != b.File {
			return 0
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}
