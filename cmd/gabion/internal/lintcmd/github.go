package lintcmd

import (
	"fmt"
	"strings"

	"github.com/gabion-go/gabion/internal/lint"
)

// In a workflow command's text and in its properties these characters mean something else.
var (
	inText     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	inProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// github writes annotations, which GitHub shows at the lines of a pull request.
func (r *request) github(out outcome) string {
	var b strings.Builder
	for _, f := range out.Findings {
		text := f.Reason
		if f.Proposal != "" {
			text += "\n" + f.Proposal
		}
		fmt.Fprintf(&b, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", annotations[f.Severity],
			inProperty.Replace(f.File), f.Line, f.Col, inProperty.Replace(f.Rule.ID+" "+f.Rule.Name), inText.Replace(text+"\n"+f.Rule.Page()))
	}
	b.WriteString(notCommand(r.unknown(out.Unknown)))
	b.WriteString(out.counts() + "\n")
	return b.String()
}

// annotations are GitHub's words for severities.
var annotations = [...]string{lint.Note: "notice", lint.Warning: "warning", lint.Error: "error"}

// notCommand makes sure that no line of a text is taken for a command.
func notCommand(text string) string {
	return strings.ReplaceAll(text, "::", ": :")
}
