package library

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// properties is Spring's other form of the same file.
var properties = foreign.Format{
	Name: "spring-properties", Aliases: []string{"properties"}, Title: "resilience4j in Spring's application.properties", Source: r4jSpring, Plain: true,
	Like: func(text []byte, _ []*yamlstrict.Tree) bool { return propertyLike.Match(text) },
	Read: func(f *foreign.File) *foreign.Import {
		w := foreign.NewWalker(f, "spring-properties")
		return readSpring(w, propertyTrees(string(f.Text)))
	},
}

// propertyLike is a line such as resilience4j.retry.instances.a.max-attempts=3.
var propertyLike = regexp.MustCompile(`(?m)^[ \t]*resilience4j\.[\w.\[\]-]+[ \t]*=`)

// index is the place of a value in a list, which is written behind its key.
var index = regexp.MustCompile(`\[\d+\]$`)

// propertyTrees reads java.util.Properties as the maps that its keys stand for. #--- divides documents.
func propertyTrees(text string) (all []*yamlstrict.Tree) {
	t := &yamlstrict.Tree{Kind: yamlstrict.Map, Line: 1, Col: 1}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line, n := strings.TrimLeft(lines[i], " \t\f"), i+1
		if mark := strings.TrimSpace(line); mark == "#---" || mark == "!---" {
			all = append(all, t)
			t = &yamlstrict.Tree{Kind: yamlstrict.Map, Line: n, Col: 1}
		}
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		col := 1 + len(lines[i]) - len(line)
		for goesOn(line) && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + strings.TrimLeft(lines[i], " \t\f")
		}
		key, value := divided(line)
		key = index.ReplaceAllString(unescaped(key), "")
		at := col + len(line) - len(value)
		t.Pairs = append(t.Pairs, yamlstrict.Pair{
			Key:   &yamlstrict.Tree{Kind: yamlstrict.Text, Line: n, Col: col, Text: key},
			Value: &yamlstrict.Tree{Kind: yamlstrict.Text, Line: n, Col: at, Text: strings.TrimRight(unescaped(value), " \t")},
		})
	}
	return append(all, t)
}

// goesOn reports whether a line ends with an odd number of backslashes.
func goesOn(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// divided cuts a line at the first = or :, or blank, that has no backslash in front.
func divided(line string) (key, value string) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '=', ':':
			return strings.TrimRight(line[:i], " \t\f"), strings.TrimLeft(line[i+1:], " \t\f")
		case ' ', '\t', '\f':
			rest := strings.TrimLeft(line[i:], " \t\f")
			if rest != "" && (rest[0] == '=' || rest[0] == ':') {
				rest = strings.TrimLeft(rest[1:], " \t\f")
			}
			return line[:i], rest
		}
	}
	return line, ""
}

func unescaped(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n', 'r', 'f':
			b.WriteByte(' ')
		case 'u':
			if n, err := strconv.ParseUint(s[min(i+1, len(s)):min(i+5, len(s))], 16, 16); err == nil && i+5 <= len(s) {
				b.WriteRune(rune(n))
				i += 4
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
