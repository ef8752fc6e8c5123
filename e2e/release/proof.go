package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// proof uses the modules of a proxy folder as strangers do: outside any checkout,
// with a module cache and a home of its own.
type proof struct {
	dir, src, proxy, version string
	out                      io.Writer
}

// deeper names a package of modules that have more to them than their first one.
var deeper = map[string]string{prefix: "gabionhttp", prefix + "/messages": "consumer"}

// all installs the command and builds a program with each module.
func (p proof) all(modules []module) error {
	env, err := p.env()
	if err != nil {
		return err
	}
	for _, m := range modules {
		if strings.HasPrefix(m.dir, "cmd/") {
			if err := p.installs(env, m); err != nil {
				return err
			}
			continue
		}
		if err := p.builds(env, m.path, m.path); err != nil {
			return err
		}
		if pkg, more := deeper[m.path]; more {
			if err := p.builds(env, m.path, m.path+"/"+pkg); err != nil {
				return err
			}
		}
	}
	return p.starts(env)
}

// env makes go ask the folder first, then what this machine has downloaded already,
// then the usual proxies.
func (p proof) env() ([]string, error) {
	usual, err := command(p.dir, nil, "go", "env", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, err := command(p.dir, nil, "go", "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	compiled, err := command(p.dir, nil, "go", "env", "GOCACHE")
	if err != nil {
		return nil, err
	}
	here := "file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download"))
	return []string{
		"HOME=" + filepath.Join(p.dir, "home"), "GOENV=off", "GOCACHE=" + compiled, // of a home, only what is compiled already
		"GOWORK=off", "GOFLAGS=-mod=mod -modcacherw -trimpath", "GOMODCACHE=" + filepath.Join(p.dir, "modcache"), "GOBIN=" + filepath.Join(p.dir, "bin"),
		"GOPROXY=file://" + filepath.ToSlash(p.proxy) + "," + here + "," + usual, "GONOSUMDB=" + prefix, "GONOPROXY=", "GOPRIVATE=",
	}, nil
}

// installs runs go install, and the program that it made.
func (p proof) installs(env []string, m module) error {
	fmt.Fprintf(p.out, "== go install %s@%s\n", m.path, p.version)
	if _, err := command(p.dir, env, "go", "install", m.path+"@"+p.version); err != nil {
		return err
	}
	said, err := command(p.dir, nil, filepath.Join(p.dir, "bin", filepath.Base(m.path)), "version")
	if err != nil {
		return err
	}
	fmt.Fprintln(p.out, "  "+said)
	if !strings.Contains(said, p.version) {
		return fmt.Errorf("%s says that it is %q", m.path, said)
	}
	if m.path != prefix+"/cmd/gabion" {
		return nil
	}
	// It has the playground's program: there is no go command to compile it with.
	_, err = command(p.dir, []string{"PATH="}, filepath.Join(p.dir, "bin", "gabion"), "playground", "--out", filepath.Join(p.dir, "playground"))
	return err
}

// builds makes a program that imports a package, with one go get for its module.
func (p proof) builds(env []string, modulePath, pkg string) error {
	fmt.Fprintf(p.out, "== go get %s@%s: a program with %s\n", modulePath, p.version, strings.TrimPrefix(pkg, prefix+"/"))
	dir, err := os.MkdirTemp(p.dir, "fresh-")
	if err != nil {
		return err
	}
	program := fmt.Sprintf("package main\n\nimport _ %q\n\nfunc main() {}\n", pkg)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{{"mod", "init", "example.com/fresh"}, {"get", modulePath + "@" + p.version}, {"build", "-o", os.DevNull, "."}} {
		if _, err := command(dir, env, "go", args...); err != nil {
			return err
		}
	}
	return nil
}

// starts builds the program of docs/get-started.md in a module of its own, and lets it run until a
// server has its first request.
func (p proof) starts(env []string) error {
	fmt.Fprintln(p.out, "== the program of docs/get-started.md, and its first request")
	dir, err := os.MkdirTemp(p.dir, "start-")
	if err != nil {
		return err
	}
	for _, name := range []string{"main.go", "gabion.yaml"} {
		if err := copyFile(filepath.Join(p.src, "examples", "start", name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"mod", "init", "example.com/start"},
		{"get", prefix + "@" + p.version, prefix + "/contrib/gabionprom@" + p.version},
		{"get", "."},
		{"build", "-o", "start", "."},
	} {
		if _, err := command(dir, env, "go", args...); err != nil {
			return err
		}
	}
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
	}))
	defer server.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var said bytes.Buffer
	program := exec.CommandContext(ctx, filepath.Join(dir, "start"), server.URL)
	program.Dir, program.Stdout, program.Stderr = dir, &said, &said
	if err := program.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	select {
	case <-asked:
		stop()
		<-ended
		return nil
	case err := <-ended:
		return fmt.Errorf("it ended before its first request: %w\n%s", err, &said)
	}
}
