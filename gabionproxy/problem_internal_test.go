package gabionproxy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestWhatKeptARequestFromItsServer(t *testing.T) {
	for fact, c := range map[string]struct {
		err  error
		want string // a part; empty means nothing
	}{
		"nothing listens":              {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "connection refused"},
		"there is no such name":        {fmt.Errorf("dial: %w", &net.DNSError{IsNotFound: true}), "name of the server was not found"},
		"the name server has troubles": {&net.DNSError{IsTemporary: true}, ""},
		"anything else":                {errors.New("reset"), ""},
	} {
		if got := unreached(c.err); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", fact, got)
		}
	}
}

// The type of a problem is a link.
func TestThePageOfReasonsHasTheProxysOwn(t *testing.T) {
	page, err := os.ReadFile("../docs/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob("*.go")
	word := regexp.MustCompile(`&refusal\{.*reason: "(\w+)"`)
	found := 0
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range word.FindAllStringSubmatch(string(code), -1) {
			if found++; !strings.Contains(string(page), "\n### "+m[1]+"\n") {
				t.Errorf("%s: docs/reasons.md has no heading %s", file, m[1])
			}
		}
	}
	if found < 12 {
		t.Errorf("%d reasons were found in the code", found)
	}
}
