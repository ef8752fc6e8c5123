// Package shell writes completions for four shells and a man page, from what the
// commands say of themselves.
package shell

import (
	"regexp"
	"slices"
	"strings"
)

// A Command is a command line without its arguments, and its help.
type Command struct {
	Words []string // "config", "print"; none is gabion itself
	Help  string   // what -h prints
	Next  []string // the words that may follow
}

// Tree are the commands, gabion itself first, each before those below it.
type Tree []Command

// Read asks for the help of gabion itself, of its commands and of the words after
// them. Help returns what -h prints after words, or "" if there is no such command.
func Read(commands []string, help func(words ...string) string) Tree {
	tree := Tree{{Help: help(), Next: commands}}
	for _, name := range commands {
		c := Command{Words: []string{name}, Help: help(name)}
		at := len(tree)
		tree = append(tree, c)
		for _, word := range candidates(name, c.Help) {
			if text := help(name, word); text != "" {
				tree[at].Next = append(tree[at].Next, word)
				tree = append(tree, Command{Words: []string{name, word}, Help: text})
			}
		}
	}
	return tree
}

var listed = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) {2,}\S`)

// candidates are the words that a command's help shows after its name: in the lines
// that say how it is used, and in a list.
func candidates(name, help string) []string {
	used := regexp.MustCompile(`(?m)^(?:usage:|      ) gabion ` + regexp.QuoteMeta(name) + ` ([a-z][a-z|-]*)`)
	var words []string
	for _, found := range append(used.FindAllStringSubmatch(help, -1), listed.FindAllStringSubmatch(help, -1)...) {
		words = append(words, strings.Split(found[1], "|")...)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

var flag = regexp.MustCompile(`(?:^|[\s\[|])(--?[a-z][a-z-]*)`)

// Flags are the flags that the help names, in alphabetical order, and -h.
func (c Command) Flags() []string {
	flags := []string{"-h"}
	usage, rest, _ := strings.Cut(c.Help, "\n\n")
	for _, found := range flag.FindAllStringSubmatch(usage+"\n"+options(rest), -1) {
		flags = append(flags, found[1])
	}
	slices.Sort(flags)
	return slices.Compact(flags)
}

// options are the lines of a help that begin with a flag.
func options(help string) string {
	var b strings.Builder
	for line := range strings.Lines(help) {
		if strings.HasPrefix(strings.TrimSpace(line), "-") {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			b.WriteString(word + "\n")
		}
	}
	return b.String()
}

// line is the command as it is typed after gabion.
func (c Command) line() string { return strings.Join(c.Words, " ") }
