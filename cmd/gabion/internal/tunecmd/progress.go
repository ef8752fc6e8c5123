package tunecmd

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gabion-go/gabion/lab"
	"golang.org/x/term"
)

// progress says how far tuning is: on a terminal in one line over itself, elsewhere a line
// at the beginning of each phase and every half minute.
type progress struct {
	to       io.Writer
	now      func() time.Time
	terminal bool
	begin    time.Time
	last     time.Time
	phase    string
}

// linesApart is the time between lines that are not written over each other; on a terminal
// a tenth of a second is as fast as anybody reads.
const (
	linesApart    = 30 * time.Second
	repaintsApart = 100 * time.Millisecond
)

func newProgress(to io.Writer, now func() time.Time) *progress {
	p := &progress{to: to, now: now, begin: now()}
	if f, ok := to.(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	return p
}

func (p *progress) tell(at lab.TuneProgress) {
	now := p.now()
	apart := linesApart
	if p.terminal {
		apart = repaintsApart
	}
	if at.Phase == p.phase && now.Sub(p.last) < apart {
		return
	}
	p.phase, p.last = at.Phase, now
	line := fmt.Sprintf("%v: %s", now.Sub(p.begin).Round(time.Second), at.Phase)
	switch {
	case at.All > 0:
		line += fmt.Sprintf(", runs: %d of %d", at.Done, at.All)
	default:
		line += fmt.Sprintf(", %d candidates, runs: %d", at.Candidates, at.Done)
	}
	if p.terminal {
		fmt.Fprint(p.to, "\r\x1b[K"+line)
		return
	}
	fmt.Fprintln(p.to, line)
}

// end leaves the line free.
func (p *progress) end() {
	if p.terminal && p.phase != "" {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
