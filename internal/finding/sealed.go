package finding

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// What no log may have of a URL: what stands before the host, without the user's name where a password follows it, and
// parameters that are called after what they are.
var (
	userinfo  = regexp.MustCompile(`://(?:[^\s"'/@:]*:)?([^\s"']+)@`)
	parameter = regexp.MustCompile(`(?i)[?&;][a-z_.-]*(?:pass|token|secret)[a-z_.-]*=([^\s"'&]+)`)
)

// Sealed replaces, character by character, passwords in what may hold URLs. Columns stay what they are.
func Sealed(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	return sealed(parameter, sealed(userinfo, s))
}

// sealed replaces what the pattern's group finds.
func sealed(pattern *regexp.Regexp, s string) string {
	var b strings.Builder
	last := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(s[last:at[2]])
		b.WriteString(strings.Repeat("x", utf8.RuneCountInString(s[at[2]:at[3]])))
		last = at[3]
	}
	return b.String() + s[last:]
}
