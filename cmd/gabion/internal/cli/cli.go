// Package cli puts gabion's commands on cobra: how they are found, what is said about a wrong
// command line, and the exit codes.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gabion-go/gabion/internal/suggest"
)

// The exit codes of every command.
const (
	ExitOK          = 0
	ExitFindings    = 1 // what it looked for is there, such as a file's mistakes or a missed threshold
	ExitUsage       = 2 // the command was called wrongly
	ExitFailure     = 3 // something else went wrong
	ExitInterrupted = 130
)

// Unread is the exit code for a plan or a scenario that was not read: a file that can't be is a failure, and a name that there is not a
// wrong call.
func Unread(err error) int {
	if errors.As(err, new(*fs.PathError)) {
		return ExitFailure
	}
	return ExitUsage
}

// Count is a number of things, as in 1 member or 2 dependencies.
func Count[N int | int64](n N, thing string) string {
	if n != 1 {
		if stem, ok := strings.CutSuffix(thing, "y"); ok && !strings.HasSuffix(stem, "e") {
			thing = stem + "ie"
		}
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// WriteJSON writes a value on many lines, with the characters of HTML as they are.
func WriteJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// exit is the code, above 0, with which a command has ended that has said why.
type exit int

// Error implements error.
func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Command is one with flags and words. Text is what -h prints; it describes each flag on a line
// that begins with it. Run returns the exit code, and has written what is to be said.
func Command(name, says, text string, run func(c *cobra.Command, words []string) int) *cobra.Command {
	return &cobra.Command{Use: name, Short: says, Long: text, Args: cobra.ArbitraryArgs, RunE: func(c *cobra.Command, words []string) error {
		if code := run(c, words); code != 0 {
			return exit(code)
		}
		return nil
	}}
}

// Group is a command that needs one of the others after it. Text is what -h prints; without one
// it lists the others.
func Group(name, says, text string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: name, Short: says, Long: text, Args: cobra.ArbitraryArgs, ValidArgsFunction: cobra.NoFileCompletions}
	g.RunE = func(c *cobra.Command, words []string) error {
		switch {
		case len(words) == 0:
			return errors.New("say what to do: " + either(names(c)))
		case words[0] == "help":
			return helpOn(c, words[1:])
		}
		return unknown(c, words[0])
	}
	g.FParseErrWhitelist.UnknownFlags = true // they are of a command that is misspelled
	g.AddCommand(commands...)
	return g
}

// Commands are listed in the order in which they are added. Cobra has one setting for the
// process, so it is set before any command runs: tests run several at once.
func init() { cobra.EnableCommandSorting = false }

// Root is gabion itself. Text is what -h prints before the list of commands, and after is what
// follows it.
func Root(text, after string, groups []*cobra.Group, commands ...*cobra.Command) *cobra.Command {
	root := Group("gabion", "call dependencies that fail", text, commands...)
	root.Annotations = map[string]string{"after": after}
	root.FParseErrWhitelist.UnknownFlags = false
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddGroup(groups...)
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]...", Short: "this, or more on a command", Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, words []string) error { return helpOn(c.Root(), words) },
		ValidArgsFunction: func(c *cobra.Command, words []string, _ string) ([]string, cobra.ShellCompDirective) {
			of, rest, err := c.Root().Find(words)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(of), cobra.ShellCompDirectiveNoFileComp
		},
	})
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(c.OutOrStdout(), Help(c)) })
	root.SetFlagErrorFunc(flagProblem)
	root.InitDefaultHelpCmd()
	Walk(root, describe)
	return root
}

// Walk calls visit with a command and all below it.
func Walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, next := range c.Commands() {
		Walk(next, visit)
	}
}

// Run runs one command of gabion as if it were the only one.
func Run(ctx context.Context, c *cobra.Command, args []string, stdout, stderr io.Writer) int {
	return Execute(ctx, Root("", "", nil, c), append([]string{c.Name()}, args...), stdout, stderr)
}

// Execute runs what the arguments say, and returns the exit code.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(dashes(root, args))
	c, err := root.ExecuteContextC(context.WithValue(ctx, typedKey{}, args))
	var code exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	return Wrongly(c, err.Error())
}

type typedKey struct{}

// Typed are the words and flags that were typed after the command, in their order.
func Typed(c *cobra.Command) []string {
	args, _ := c.Context().Value(typedKey{}).([]string)
	c.VisitParents(func(*cobra.Command) { args = args[min(1, len(args)):] })
	return args
}

// Wrongly says what is wrong with a command line, and then how it should look.
func Wrongly(c *cobra.Command, problem string) int {
	fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n\n%s", c.CommandPath(), problem, Help(c))
	return ExitUsage
}

// dashes gives flags with long names their second dash: package flag took one, and so do the
// scripts of those who used it.
func dashes(root *cobra.Command, args []string) []string {
	args = slices.Clone(args)
	c, _, _ := root.Find(args) // what does not exist is said later
	c.InitDefaultHelpFlag()
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		f := lookUp(c.Flags(), name)
		if !strings.HasPrefix(args[i], "-") {
			continue
		}
		if !strings.HasPrefix(args[i], "--") && len(name) > 1 && (f != nil || c.Flags().ShorthandLookup(name[:1]) == nil) {
			args[i] = "-" + args[i]
		}
		if f != nil && !joined && f.NoOptDefVal == "" {
			i++ // its value
		}
	}
	return args
}

func lookUp(flags *pflag.FlagSet, name string) *pflag.Flag {
	if len(name) == 1 {
		return flags.ShorthandLookup(name)
	}
	return flags.Lookup(name)
}

// flagProblem says which flag one that does not exist was most likely meant to be, or what a value has to be.
func flagProblem(c *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if errors.Is(err, strconv.ErrRange) && !strings.HasPrefix(bad.GetValue(), "-") {
			return fmt.Errorf("--%s: %.40q is too large", bad.GetFlag().Name, bad.GetValue())
		}
		if wants := wanted[bad.GetFlag().Value.Type()]; wants != "" {
			return fmt.Errorf("--%s: %.40q is no %s", bad.GetFlag().Name, bad.GetValue(), wants)
		}
		return err
	}
	typed, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return err
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	near := suggest.Nearest(typed, known)
	if near == "" && typed == "json" && slices.Contains(known, "format") {
		near = "format json"
	}
	if near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}

// wanted are the kinds of values by pflag's names of them. Of others, pflag's own error says it.
var wanted = map[string]string{
	"int": "whole number, such as 3", "uint64": "whole number from zero on, such as 3", "float64": "number, such as 0.5",
	"bool": "switch, which is true or false", "duration": "duration, such as 250ms, 10s or 1m30s",
}

// unknown says which command one that does not exist was most likely meant to be.
func unknown(c *cobra.Command, word string) error {
	near := suggest.Nearest(word, names(c))
	for _, next := range c.Commands() {
		if near == "" && suggest.Nearest(word, next.SuggestFor) != "" {
			near = next.Name()
		}
	}
	if near == "" {
		return fmt.Errorf("unknown command %q", word)
	}
	return fmt.Errorf("unknown command %q; did you mean %q?", word, near)
}

// helpOn prints the help of the command that the words name, below c.
func helpOn(c *cobra.Command, words []string) error {
	of, rest, err := c.Find(words)
	switch {
	case err != nil:
		return err
	case len(rest) > 0 && of.HasSubCommands():
		return exit(Wrongly(of, unknown(of, rest[0]).Error()))
	case of.Name() == "help":
		of = of.Root()
	}
	of.HelpFunc()(of, words)
	return nil
}

// names are the commands below c.
func names(c *cobra.Command) (names []string) {
	for _, next := range c.Commands() {
		if !next.Hidden {
			names = append(names, next.Name())
		}
	}
	return names
}

func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
