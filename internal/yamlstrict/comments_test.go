package yamlstrict

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

func TestCommentsAreFound(t *testing.T) {
	for fact, c := range map[string]struct{ text, want string }{
		"alone on a line":              {"# one\na: 1", "1:1 one >2"},
		"behind a value":               {"a: 1 # one", "1:6 one >1"},
		"without a blank":              {"a: 1 #one\n#two\nb: 2", "1:6 one >1, 2:1 two >3"},
		"several above a line":         {"# one\n  # two\na: 1", "1:1 one >3, 2:3 two >3"},
		"an empty line below":          {"# one\n\na: 1", "1:1 one >0"},
		"at the end":                   {"a: 1\n# one\n# two", "2:1 one >0, 3:1 two >0"},
		"above one that is not alone":  {"# one\na: 1 # two", "1:1 one >2, 2:6 two >2"},
		"no blank before it":           {"a: b#c", ""},
		"in double quotes":             {`a: "x # y" # one`, "1:12 one >1"},
		"in single quotes":             {`a: 'x '' # y' # one`, "1:15 one >1"},
		"behind an escape":             {`a: "x \" # y" # one`, "1:15 one >1"},
		"over several lines":           {"a: \"x\n # y\n z\" # one", "3:5 one >3"},
		"in braces":                    {"a: {b: 'x # y', # one\n c: 1}", "1:17 one >1"},
		"a quote in a word":            {"a: don't # one\nb: it's # two", "1:10 one >1, 2:9 two >2"},
		"a quote that goes on":         {"a: he said\n  'x # one", "2:6 one >2"},
		"a block":                      {"a: |\n  # no\n\n  # no\n # one\nb: 1 # two", "5:2 one >6, 6:6 two >6"},
		"a block of a list":            {"a:\n  - >-\n    # no\n  # one\n  - b: |\n      # no\n    c: 1 # two", "4:3 one >5, 7:10 two >7"},
		"an indicator with a comment":  {"a: | # one\n  # no\nb: 1", "1:6 one >1"},
		"behind an anchor and a tag":   {"a: &x !!str \"# no\" # one", "1:20 one >1"},
		"a quoted key":                 {`"a # no": 1 # one`, "1:13 one >1"},
		"behind a byte order mark":     {"\ufeff# one\na: 1", "1:1 one >2"},
		"no YAML":                      {"a: {b: \"x # no\", # one\nc: [1 # two", "1:18 one >1, 2:7 two >2"},
		"no YAML, with a quote inside": {"a: {b: don't # one", "1:14 one >1"},
		"no YAML, and a block":         {"b: [\na: |\n  # no\nc: 1 # one", "4:6 one >4"},
		"Windows' lines":               {"a: 1 # one\r\nb: 2", "1:6 one >1"},
	} {
		t.Run(fact, func(t *testing.T) {
			doc, _ := Parse("f", []byte(c.text), Options{})
			var got []string
			for _, c := range doc.Comments() {
				got = append(got, fmt.Sprintf("%d:%d %s >%d", c.Line, c.Col, c.Text, c.About))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

// What is found is a comment: without it the file says the same.
func FuzzComments(f *testing.F) {
	for _, text := range []string{"a: 1 # x", "a: \"x # y\"\n# z\n", "a: |\n  # b\n # c", "- 'x\n  # y' # z", "? |\n  # a\n: # b\n  - >2\n     # c", "&a 'x # y': !!str |-\n  # z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, found := Parse("f", []byte(text), Options{})
		comments := doc.Comments() // of any file
		if len(found) > 0 || strings.ContainsAny(text, "\u0085\u2028\u2029\r\ufeff") {
			return
		}
		lines := strings.Split(text, "\n")
		for _, c := range comments {
			lines[c.Line-1] = string([]rune(lines[c.Line-1])[:c.Col-1])
		}
		var after yaml.Node
		err := yaml.NewDecoder(bytes.NewReader([]byte(strings.Join(lines, "\n")))).Decode(&after)
		if err != nil || len(after.Content) == 0 || tree(doc.root) != tree(after.Content[0]) {
			t.Errorf("%+v: %v", comments, err)
		}
	})
}

// tree is what a node says.
func tree(n *yaml.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "(%d %q", n.Kind, n.Value)
	for _, c := range n.Content {
		b.WriteString(tree(c))
	}
	return b.String() + ")"
}
