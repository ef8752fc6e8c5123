package explaincmd

import (
	"fmt"
	"strings"
	"sync"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/docs"
)

// ending is what is said of the reason for which a message ends. Its keys are part of the JSON's
// version.
type ending struct {
	Reason  string `json:"reason"`
	Becomes string `json:"becomes"` // of the message
	Means   string `json:"means"`
	Do      string `json:"do"`
}

// endings are the rows of the table of docs/reasons.md.
var endings = sync.OnceValue(func() (all []ending) {
	_, text, _ := strings.Cut(docs.Reasons, "\n## Ends of messages\n")
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "`") {
			continue
		}
		for i := range cells {
			cells[i] = link.ReplaceAllString(strings.TrimSpace(cells[i]), "$1")
		}
		all = append(all, ending{strings.Trim(cells[0], "`"), cells[1], cells[2], cells[3]})
	}
	return all
})

// endingOf returns the end of a message that a word names, or nil.
func endingOf(word string) *ending {
	for _, e := range endings() {
		if e.Reason == word {
			return &e
		}
	}
	return nil
}

func (e *ending) text() string {
	return fold.Hang(fmt.Sprintf("%s, of a message: %s", e.Reason, e.Means), 4) + "\n" +
		fold.Hang("It becomes: "+e.Becomes+".", 4) + "\n" + fold.Hang("What to do: "+e.Do+".", 4) + "\n"
}

func (r *request) explainEnding(e *ending) error {
	if r.json {
		return cli.WriteJSON(r.stdout, struct {
			Version int     `json:"version"`
			Message *ending `json:"message"`
		}{1, e})
	}
	return r.print(e.text())
}
