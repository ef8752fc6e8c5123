package playcmd

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/lab/playground"
)

// made is a binary that has the program.
func made() *request {
	return &request{made: fstest.MapFS{
		playground.Program: {Data: []byte("\x1f\x8bprogram")},
		playground.Loader:  {Data: []byte("loader")},
	}}
}

// command is the command of a request.
func command(r *request) *cobra.Command {
	c := cli.Command("playground", "", usage, r.main)
	c.Flags().StringVar(&r.listen, "listen", "127.0.0.1:0", "")
	c.Flags().StringVar(&r.out, "out", "", "")
	return c
}

func TestFilesAreWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site", "play")
	var out, complaint bytes.Buffer
	if code := cli.Run(t.Context(), command(made()), []string{"--out", dir}, &out, &complaint); code != 0 {
		t.Fatalf("exit code %d: %s", code, complaint.String())
	}
	if !strings.Contains(out.String(), dir) {
		t.Errorf("it says %q, not where", out.String())
	}
	for _, name := range []string{"index.html", "page.js", "worker.js", "style.css", playground.Program, playground.Loader} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}

func TestThePageIsServedUntilTheContextEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := cli.Run(ctx, command(made()), nil, write, io.Discard)
		_ = write.Close() // or a reader of what it never said would wait for ever
		ended <- code
	}()
	line := make([]byte, 100)
	n, err := read.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(string(line[:n]))
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("it prints %q, not an address of this machine", url)
	}
	for path, want := range map[string]string{"": "<h1>", "page.js": "gabionLab", playground.Program: "program", playground.Loader: "loader"} {
		if path == "page.js" {
			want = "lab.wasm.gz"
		}
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d, %v, without %q", path, response.StatusCode, err, want)
		}
		if response.Header.Get("Content-Security-Policy") != playground.Policy {
			t.Errorf("%s has no policy for its content", path)
		}
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestWrongCommandLines(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"now"}, 2, `"now" is not expected`},
		{[]string{"--out", "x", "--listen", ":1"}, 2, "use one"},
		{[]string{"--out", "-h"}, 2, "--out wants a directory"},
		{[]string{"--out", ""}, 2, "--out wants a directory"},
		{[]string{"--listen", "nowhere"}, 3, "--listen wants a free host:port"},
	} {
		var complaint bytes.Buffer
		if code := cli.Run(t.Context(), command(made()), tt.args, io.Discard, &complaint); code != tt.code || !strings.Contains(complaint.String(), tt.says) {
			t.Errorf("%q: exit code %d: %s", tt.args, code, complaint.String())
		}
	}
}

func TestWithoutGoAndProgramItSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var complaint bytes.Buffer
	code := cli.Run(t.Context(), command(&request{made: fstest.MapFS{}}), []string{"--out", t.TempDir()}, io.Discard, &complaint)
	if text := strings.Join(strings.Fields(complaint.String()), " "); code != 3 || !strings.Contains(text, "works only in a checkout of gabion") || !strings.Contains(text, "go is not installed") {
		t.Errorf("exit code %d: %s", code, text)
	}
}
