package cli

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// greet has a group with a command that says what it was given.
func greet() *cobra.Command {
	var name string
	var loud bool
	c := Command("say", "greet someone", "usage: gabion greet say [WORD]...\n\n  -n, --name NAME  whom,\n                   by name\n  --loud           in capitals\n",
		func(c *cobra.Command, words []string) int {
			c.Println(strings.Join(append(words, name, map[bool]string{true: "!"}[loud]), " "), Typed(c))
			return len(words)
		})
	c.Flags().StringVarP(&name, "name", "n", "", "")
	c.Flags().BoolVar(&loud, "loud", false, "")
	c.Flags().Uint64("times", 1, "")
	c.Flags().Duration("after", 0, "")
	c.Flags().String("format", "", "")
	c.SuggestFor = []string{"shout"}
	return Group("greet", "greetings", "", c)
}

func TestCommandLines(t *testing.T) {
	for _, c := range []struct {
		fact, args string
		code       int
		says       string
	}{
		{"words and flags in any order", "greet say a --name x b --loud", 2, "a b x ! [a --name x b --loud]\n"},
		{"one dash", "greet say -name x -loud", 0, "x ! [-name x -loud]\n"},
		{"one dash and =", "greet say -name=x", 0, "x"},
		{"a short name", "greet say -n x", 0, "x"},
		{"a short name that is joined", "greet say -nx", 0, "x"},
		{"a value that looks like a flag", "greet say --name -loud", 0, "-loud  ["},
		{"words that look like flags", "greet say -- -loud", 1, "-loud  "},
		{"a slip in a flag", "greet say --nmae x", 2, "gabion greet say: unknown flag: --nmae; did you mean --name?\n\nusage: gabion greet say"},
		{"a slip behind one dash", "greet say -nmae", 0, "mae"}, // -n has a value
		{"a slip in a flag behind one dash", "greet say -luod", 2, "unknown flag: --luod; did you mean --loud?"},
		{"a format that has a flag elsewhere", "greet say --json", 2, "unknown flag: --json; did you mean --format json?"},
		{"a value that is no number", "greet say --times x", 2, `gabion greet say: --times: "x" is no whole number from zero on, such as 3` + "\n\nusage"},
		{"one that is too large", "greet say --times 99999999999999999999", 2, `--times: "99999999999999999999" is too large`},
		{"a negative one", "greet say --times -1", 2, `--times: "-1" is no whole number`},
		{"a time without a unit", "greet say --after 5", 2, `--after: "5" is no duration, such as 250ms`},
		{"a slip in a command", "greet sya --name x", 2, `gabion greet: unknown command "sya"; did you mean "say"?`},
		{"another word for it", "greet shout", 2, `did you mean "say"?`},
		{"a slip in a group", "great", 2, `gabion: unknown command "great"; did you mean "greet"?`},
		{"no command", "greet", 2, "gabion greet: say what to do: say\n\nusage: gabion greet <command>"},
		{"help of a command", "greet say -h", 0, "usage: gabion greet say"},
		{"help on a command", "help greet say", 0, "usage: gabion greet say"},
		{"help on one of a group", "greet help say", 0, "usage: gabion greet say"},
		{"help on a slip", "help greet sya", 2, `did you mean "say"?`},
		{"help on help", "help help", 0, "usage: gabion <command>"},
	} {
		var out bytes.Buffer
		code := Execute(t.Context(), Root("about", "", nil, greet()), strings.Fields(c.args), &out, &out)
		if code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %d\n%s", c.fact, code, &out)
		}
	}
}

func TestFlagsAreDescribedByTheHelp(t *testing.T) {
	got := described("usage: gabion x --a\n\n  -f FILE  the file,\n           or more\n\n  --at, --for\n           when\n  FILE     not a flag\ntext --b\n")
	for flag, want := range map[string]string{"-f": "the file, or more", "--at": "when FILE     not a flag", "--for": "when FILE     not a flag", "--a": "", "--b": ""} {
		if got[flag] != want {
			t.Errorf("%s: %q, want %q", flag, got[flag], want)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

// A command that has failed says so by its code, also when nothing can be written.
func TestCodesArePassedOn(t *testing.T) {
	for code := range 4 {
		c := Command("x", "x", "usage: gabion x\n", func(*cobra.Command, []string) int { return code })
		if got := Run(t.Context(), c, nil, broken{}, broken{}); got != code {
			t.Errorf("%d became %d", code, got)
		}
	}
	if got := Run(t.Context(), greet(), []string{"--nothing"}, broken{}, broken{}); got != 2 {
		t.Errorf("called wrongly: %d", got)
	}
	if !slices.Equal(names(greet()), []string{"say"}) {
		t.Error(names(greet()))
	}
}

func TestANumberOfThings(t *testing.T) {
	for want, got := range map[string]string{
		"0 members": Count(0, "member"), "1 member": Count(1, "member"), "1 dependency": Count(1, "dependency"),
		"2 dependencies": Count(int64(2), "dependency"), "3 keys": Count(3, "key"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
