package importcmd

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/theirs"
)

var update = flag.Bool("update", false, "write the outputs into the guides")

var (
	command = regexp.MustCompile(`\A# .*\n\n    gabion (import (\S+)) > gabion\.yaml\n`)
	block   = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
)

// Each guide begins with a file's import, and shows what that writes. By the last file on its page the other system makes one attempt.
func TestGuidesBeginWithAnImport(t *testing.T) {
	pages, err := filepath.Abs("../../../../docs/migrate")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"istio", "dapr", "aws", "nginx"} {
		page := filepath.Join(pages, name+".md")
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		said, blocks := command.FindStringSubmatch(text), block.FindAllStringSubmatch(text, -1)
		if said == nil || len(blocks) != 4 {
			t.Fatalf("%s: it begins with no import, or has %d blocks", name, len(blocks))
		}
		if err := os.WriteFile(said[2], []byte(blocks[0][2]), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errOut bytes.Buffer
		if code := cli.Run(t.Context(), Command(), strings.Fields(said[1])[1:], &out, &errOut); code != 0 {
			t.Fatalf("%s: %d\n%s", name, code, errOut.String())
		}
		written := keep(keep(text, "stdout", "yaml", out.String()), "stderr", "text", errOut.String())
		if *update {
			if err := os.WriteFile(page, []byte(written), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if written != text {
			t.Errorf("%s: the command writes\n%s\nand says\n%s\nWrite it: go test ./internal/importcmd -run Guides -args -update", name, out.String(), errOut.String())
		}
		after := filepath.Join("after", said[2])
		if err := errors.Join(os.MkdirAll("after", 0o700), os.WriteFile(after, []byte(blocks[3][2]), 0o600)); err != nil {
			t.Fatal(err)
		}
		r, err := theirs.Open(name, after)
		if err != nil || len(r.Wrong) > 0 || len(r.Routes) != 1 {
			t.Fatalf("%s: %v, %v: %d routes are left", name, err, r.Wrong, len(r.Routes))
		}
		if n := r.Routes[0].Plays.Resolved().Retry.Attempts; n != 1 {
			t.Errorf("%s: after what is switched off there are %d attempts", name, n)
		}
	}
}

// keep puts what a command wrote between its marks.
func keep(text, mark, language, wrote string) string {
	begin, end := "<!-- "+mark+" -->\n", "<!-- end -->\n"
	before, rest, _ := strings.Cut(text, begin)
	_, after, _ := strings.Cut(rest, end)
	return before + begin + "```" + language + "\n" + wrote + "```\n" + end + after
}
