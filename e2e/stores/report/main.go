// Command report measures the stores and writes docs/stores.md. Nothing in that file is
// written by hand.
//
//	go run ./report                                          # as make bench does
//	go run ./report -quick -out /tmp/s.md -raw /tmp/s.json   # to see whether it works
//	go run ./report -from ../../bin/stores.json
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gabion-go/gabion/e2e/stores"
	"github.com/gabion-go/gabion/internal/report"
)

var (
	quick = flag.Bool("quick", false, "measure for a moment: does it work?")
	out   = flag.String("out", "../../docs/stores.md", "the file to write")
	raw   = flag.String("raw", "../../bin/stores.json", "where to keep the figures")
	from  = flag.String("from", "", "write the report from such a file, and measure nothing")
)

func main() { report.Main(run) }

func run() error {
	f, err := figures()
	if err != nil {
		return err
	}
	return report.Write(*out, render(f), parse)
}

func figures() (f stores.Figures, err error) {
	if *from != "" {
		return f, report.Load(*from, &f)
	}
	if f, err = measure(); err != nil {
		return f, err
	}
	return f, report.Save(*raw, f)
}

// measure runs each part in a process of its own.
func measure() (f stores.Figures, err error) {
	dir, err := os.MkdirTemp("", "gabion-stores")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "stores.test")
	if said, err := report.Alone("go", "test", "-c", "-o", program, ".").CombinedOutput(); err != nil {
		return f, fmt.Errorf("%w\n%s", err, said)
	}
	modules, err := versions()
	if err != nil {
		return f, err
	}
	load := cmp.Or(report.LoadAverage(), "unknown")
	start := time.Now()
	for _, part := range stores.Parts {
		begun := time.Now()
		one, err := measurePart(program, filepath.Join(dir, part), part)
		if err != nil {
			return f, err
		}
		f = join(f, one)
		fmt.Fprintf(os.Stderr, "%s: %s\n", part, time.Since(begun).Round(time.Second))
	}
	f.Modules = modules
	f.Took, f.Load, f.Command = time.Since(start).Round(time.Second).String(), load, report.Command("make bench")
	return f, nil
}

func measurePart(program, to, part string) (f stores.Figures, err error) {
	cmd := exec.Command(program, "-test.run", "^TestMeasure$", "-test.timeout", "10m")
	cmd.Env = append(os.Environ(), stores.MeasureEnv+"="+to, stores.PartEnv+"="+part)
	if *quick {
		cmd.Env = append(cmd.Env, stores.QuickEnv+"=1")
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return f, fmt.Errorf("%s: %w\n%s", part, err, said)
	}
	return f, report.Load(to, &f)
}

// join adds what another part measured.
func join(f, other stores.Figures) stores.Figures {
	if other.Pairs != nil {
		other.Middleware, other.Many = f.Middleware, f.Many
		return other
	}
	if other.Middleware != nil {
		f.Middleware = other.Middleware
	}
	if other.Many != nil {
		f.Many = other.Many
	}
	return f
}

// told are the modules whose versions matter.
var told = []string{"go.etcd.io/bbolt", "modernc.org/sqlite", "github.com/jackc/pgx/v5", "github.com/go-sql-driver/mysql", "github.com/redis/go-redis/v9", "github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go"}

func versions() ([]string, error) {
	text, err := report.Alone("go", append([]string{"list", "-m"}, told...)...).Output()
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}
