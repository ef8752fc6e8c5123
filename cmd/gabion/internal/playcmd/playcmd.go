// Package playcmd is what gabion playground does: it serves the lab as a page, or writes its
// files.
package playcmd

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fold"
	"github.com/gabion-go/gabion/cmd/gabion/internal/serving"
	"github.com/gabion-go/gabion/lab/playground"
)

// built has the program for browsers in a released module, where make release puts it. A checkout
// has none: 3 MB would change with every commit.
//
//go:embed all:built
var built embed.FS

const usage = `usage: gabion playground [--listen ADDRESS | --out DIR]

serves the lab as a page: sliders change an outage, its clients and their
policy, and four clients run side by side in your browser, with the code that
runs in production. It prints the page's address, and serves it until Ctrl-C.

  --listen ADDRESS  where to serve (default 127.0.0.1:0, a free port)
  --out DIR         write the page's files there instead: any web server can
                    serve them, under any path

A binary of a release has the page's program. One that was built in a checkout
compiles it there with the go command, which takes a minute the first time.

Exit codes: 0 stopped by Ctrl-C or written, 2 called wrongly, 3 any other
failure.
`

type request struct {
	listen, out    string
	made           fs.FS // may have the program
	stdout, stderr io.Writer
}

// Command is gabion playground.
func Command() *cobra.Command {
	r := &request{made: embedded()}
	c := cli.Command("playground", "change an outage and a policy with sliders, in a browser", usage, r.main)
	flags := c.Flags()
	flags.StringVar(&r.listen, "listen", "127.0.0.1:0", "")
	flags.StringVar(&r.out, "out", "", "")
	return c
}

func (r *request) main(c *cobra.Command, words []string) int {
	r.stdout, r.stderr = c.OutOrStdout(), c.ErrOrStderr()
	switch {
	case len(words) > 0:
		return r.wrongly(fmt.Sprintf("%q is not expected", words[0]))
	case c.Flags().Changed("out") && c.Flags().Changed("listen"):
		return r.wrongly("--out writes files and --listen serves them: use one")
	case c.Flags().Changed("out") && (r.out == "" || r.out[0] == '-'): // another flag
		return r.wrongly("--out wants a directory")
	}
	do := r.serve
	if r.out != "" {
		do = r.write
	}
	if err := do(c.Context()); err != nil {
		fmt.Fprint(r.stderr, fold.Lines("gabion playground: "+err.Error()+"\n"))
		return cli.ExitFailure
	}
	return cli.ExitOK
}

func (r *request) wrongly(problem string) int {
	fmt.Fprintf(r.stderr, "gabion playground: %s\n\n%s", problem, usage)
	return cli.ExitUsage
}

func embedded() fs.FS {
	files, err := fs.Sub(built, "built")
	if err != nil {
		panic(err) // the name is a valid one
	}
	return files
}

// write writes all files of the page into a directory.
func (r *request) write(ctx context.Context) error {
	if err := r.program(ctx, r.out); err != nil {
		return err
	}
	pages := playground.Page()
	err := fs.WalkDir(pages, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(pages, name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(r.out, name), text, 0o644)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(r.stdout, "%s has the page: serve it with any web server\n", r.out)
	return nil
}

// program writes the program and its loader into a directory: those that the binary has, or
// new ones.
func (r *request) program(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{playground.Program, playground.Loader} {
		text, err := fs.ReadFile(r.made, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return r.compile(ctx, dir)
		case err != nil:
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *request) compile(ctx context.Context, dir string) error {
	fmt.Fprintln(r.stderr, "Compiling the lab for browsers: the first time takes a minute.")
	if err := playground.Build(ctx, dir); err != nil {
		return fmt.Errorf("this binary is not of a release, so it compiles the page's program, and that works only in a checkout of gabion and with Go: %w", err)
	}
	return nil
}

// serve serves the page until ctx is over. It has nothing to hide, but it is for this
// machine unless it listens elsewhere.
func (r *request) serve(ctx context.Context) error {
	listener, url, _, err := serving.Listen(r.listen)
	if err != nil {
		return fmt.Errorf("--listen wants a free host:port, such as 127.0.0.1:8080: %w", err)
	}
	defer func() { _ = listener.Close() }() // the server has closed it, if it served
	dir, err := os.MkdirTemp("", "gabion-playground-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what stays is a temporary file
	if err := r.program(ctx, dir); err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: serving.Guard(url, handler(os.DirFS(dir)))}
	fmt.Fprintln(r.stdout, url)
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler serves the page's files and those of the program.
func handler(program fs.FS) http.Handler {
	pages, programs := http.FileServerFS(playground.Page()), http.FileServerFS(program)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", playground.Policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache") // the next version may have the same address
		switch strings.TrimPrefix(r.URL.Path, "/") {
		case playground.Program, playground.Loader:
			programs.ServeHTTP(w, r)
		default:
			pages.ServeHTTP(w, r)
		}
	})
}
