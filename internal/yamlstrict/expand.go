package yamlstrict

import "strings"

// maxExpanded is the longest text that variables may make of one value.
const maxExpanded = 64 << 10

// expand replaces ${VAR}, ${VAR:-default} and ${VAR:?message} in one value, and
// $$ by a dollar. It works on a value that is already parsed, so what a variable
// holds is text and never becomes YAML. As in a shell, the forms with a colon
// take an empty variable for an unset one.
func expand(text string, lookup func(string) (string, bool)) (out string, vars []string, problem, proposal string) {
	var b strings.Builder
	for text != "" && problem == "" {
		before, rest, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			break
		}
		if strings.HasPrefix(rest, "$") {
			b.WriteByte('$')
			text = rest[1:]
			continue
		}
		inner, after, closed := strings.Cut(strings.TrimPrefix(rest, "{"), "}")
		if !strings.HasPrefix(rest, "{") || !closed {
			return "", vars, "has a lone $", "write ${NAME} for a variable, $$ for a dollar"
		}
		var value, name string
		value, name, problem, proposal = variable(inner, lookup)
		if name != "" {
			vars = append(vars, name)
		}
		b.WriteString(value)
		if b.Len() > maxExpanded {
			return "", vars, "expands to more than 64 KiB", "write it shorter"
		}
		text = after
	}
	return b.String(), vars, problem, proposal
}

// variable looks up what stands between the braces.
func variable(inner string, lookup func(string) (string, bool)) (value, name, problem, proposal string) {
	name, rest, _ := strings.Cut(inner, ":")
	if !isName(name) || strings.Contains(rest, "$") {
		return "", "", "has an invalid variable", "write ${NAME}, ${NAME:-default} or ${NAME:?message}"
	}
	value, set := "", false
	if lookup != nil {
		value, set = lookup(name)
	}
	switch {
	case len(inner) == len(name):
		if set {
			return value, name, "", ""
		}
		return "", name, "needs the variable " + name + ", which is not set", "set it, or write ${" + name + ":-default}"
	case strings.HasPrefix(rest, "-"):
		if set && value != "" {
			return value, name, "", ""
		}
		return rest[1:], name, "", ""
	case strings.HasPrefix(rest, "?"):
		if set && value != "" {
			return value, name, "", ""
		}
		return "", name, "needs the variable " + name + ": " + rest[1:], "set it"
	}
	return "", "", "has an invalid variable", "write ${NAME}, ${NAME:-default} or ${NAME:?message}"
}

func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}
