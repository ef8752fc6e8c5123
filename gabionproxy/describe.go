package gabionproxy

import (
	"fmt"

	"github.com/gabion-go/gabion/config"
)

// Describe says in a line each what a listener does with requests.
func Describe(l config.ProxyListener) []string {
	switch {
	case l.Ingress.To != "":
		return []string{"before the program at " + l.Ingress.To}
	case l.To != "":
		return []string{fmt.Sprintf("everything to %s, as %s", l.To, l.Dependency)}
	}
	var lines []string
	for _, r := range l.Routes {
		lines = append(lines, fmt.Sprintf("%s%s to %s, as %s", r.Host, r.Path, r.To, r.Dependency))
	}
	for _, f := range l.Forward {
		lines = append(lines, fmt.Sprintf("clients may name %s, as %s", f.Host, f.Dependency))
	}
	return lines
}
