package playground

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is the package of the program.
const source = "github.com/gabion-go/gabion/lab/playground/wasm"

// Build compiles the program with the go command of this machine, and writes Program and
// Loader into a directory. The source is that which the go command finds from the directory
// in which the process runs: a checkout. The same source and the same Go make the same bytes.
// The error says what the go command says.
func Build(ctx context.Context, dir string) error {
	work, err := os.MkdirTemp("", "gabion-playground-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // what stays is a temporary file
	program := filepath.Join(work, "lab.wasm")
	env := []string{"GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS="}
	if _, err := goes(ctx, env, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, source); err != nil {
		return err
	}
	root, err := goes(ctx, nil, "env", "GOROOT")
	if err != nil {
		return err
	}
	loader, err := os.ReadFile(filepath.Join(strings.TrimSpace(root), "lib", "wasm", Loader))
	if err != nil {
		return fmt.Errorf("this Go distribution has no %s: %w", Loader, err)
	}
	code, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // web servers read it
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, Loader), loader, 0o644); err != nil { //nolint:gosec // web servers read it
		return err
	}
	return os.WriteFile(filepath.Join(dir, Program), packed(code), 0o644) //nolint:gosec // web servers read it
}

// packed is the same bytes for the same code: the header has no time.
func packed(code []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is one that there is
	_, _ = z.Write(code)                                  // memory takes all
	_ = z.Close()
	return b.Bytes()
}

// goes runs the go command.
func goes(ctx context.Context, env []string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the arguments are Build's own
	c.Env = append(os.Environ(), env...)
	var out, complaint bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaint
	switch err := c.Run(); {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("go is not installed: %w", err)
	case err != nil:
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}
