// Command report overloads a server in every way that package overload has, and writes what
// came out and what the lab said of it as docs/overload.md. Nothing in that file is written
// by hand.
//
//	go run ./overload/report                                  # all, as make overload does, in three hours
//	go run ./overload/report -at-once 3                       # in a third of that, if the machine has nothing else to do
//	go run ./overload/report -only bare/naive/10s             # runs one again, and keeps what the others came to
//	go run ./overload/report -quick -out /tmp/o.md -raw /tmp/o.json # to see whether it works
//	go run ./overload/report -from ../bin/overload.json          # with -predict: what the lab says now
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gabion-go/gabion/e2e/overload"
	"github.com/gabion-go/gabion/internal/report"
)

var (
	quick  = flag.Bool("quick", false, "a small world for seconds: does it work?")
	atOnce = flag.Int("at-once", 1, "how many runs there are at the same time, each in a process of its own")
	only   = flag.String("only", "", "the runs, with commas; those of the file of -raw are kept")
	out    = flag.String("out", "../docs/overload.md", "the file to write")
	note   = flag.String("note", "", "what else is to be said of the runs, such as that the machine had other work to do")
	raw    = flag.String("raw", "../bin/overload.json", "where to keep the figures")
	again  = flag.Bool("predict", false, "with -from: ask the lab again, and keep what was measured")
	from   = flag.String("from", "", "write the report from such a file, and measure nothing")
	one    = flag.String("one", "", "make this run, and print what it came to: what the command calls itself with")
)

// figures are what all runs come to.
type figures struct {
	Command, System, CPU, Go string
	Note                     string
	Processors, AtOnce       int
	Results                  []overload.Result
}

func main() {
	report.Main(func() error { return run(context.Background()) })
}

func run(ctx context.Context) error {
	if *one != "" {
		return alone(ctx)
	}
	f, err := all(ctx)
	if err != nil {
		return err
	}
	return report.Write(*out, render(f), parse)
}

// plan is what is run, by name.
func plan() (runs []planned) {
	for _, c := range overload.Cases() {
		for _, trigger := range []time.Duration{overload.Large.Trigger, overload.Short} {
			if trigger > overload.Short && !c.Long {
				continue
			}
			w := overload.Large
			if w.Trigger = trigger; *quick {
				w = overload.Small
				w.Before, w.Trigger, w.After = 2*time.Second, min(trigger, 3*time.Second), 4*time.Second
			}
			runs = append(runs, planned{fmt.Sprintf("%s/%s", c.Case, trigger), c.Case, w})
		}
	}
	return runs
}

// A planned run is a case in a world.
type planned struct {
	name  string
	c     overload.Case
	world overload.World
}

// alone makes the run that -one names.
func alone(ctx context.Context) error {
	for _, p := range plan() {
		if p.name != *one {
			continue
		}
		r, err := p.world.Measure(ctx, p.c)
		if err != nil {
			return err
		}
		r.Name = p.name
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	return fmt.Errorf("there is no run %q", *one)
}

// all makes the runs that are wanted, and keeps the others of the last time.
func all(ctx context.Context) (f figures, err error) {
	if *from != "" || *only != "" {
		err := report.Load(max(*from, *raw), &f)
		if err != nil && (*from != "" || !errors.Is(err, os.ErrNotExist)) {
			return f, err
		}
	}
	switch {
	case *from != "" && *again:
		return f, f.predict(ctx)
	case *from != "":
		return f, nil
	}
	f.Command = "make overload"
	if *atOnce > 1 {
		f.Command += fmt.Sprintf(` ARGS="-at-once %d"`, *atOnce)
	}
	if *note != "" {
		f.Note = *note
	}
	f.System, f.CPU, f.Go = runtime.GOOS+"/"+runtime.GOARCH, report.Processor(), runtime.Version()
	f.Processors, f.AtOnce = runtime.GOMAXPROCS(0), *atOnce
	return f, f.measure(ctx)
}

// measure makes the runs, some at a time, and writes the figures after each.
func (f *figures) measure(ctx context.Context) error {
	var mu sync.Mutex // guards f and failed
	var failed error
	var running sync.WaitGroup
	turns := make(chan struct{}, *atOnce)
	for _, p := range plan() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), p.name) {
			continue
		}
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			r, err := inProcess(ctx, p.name)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = f.keep(r)
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", p.name, err))
			}
			fmt.Fprintf(os.Stderr, "%s %s: took %s\n", time.Now().Format(time.TimeOnly), p.name, r.Took.Round(time.Second))
		})
	}
	running.Wait()
	return failed
}

// predict asks the lab again of all that was measured.
func (f *figures) predict(ctx context.Context) (err error) {
	for i := range f.Results {
		r := &f.Results[i]
		if r.Lab, err = r.World.Predict(ctx, r.Case, r.Ping.Way(r.World.Work), overload.Replications); err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		if err := f.keep(*r); err != nil {
			return err
		}
	}
	return nil
}

// inProcess makes a run in a process of its own.
func inProcess(ctx context.Context, name string) (r overload.Result, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, self, "-one", name, fmt.Sprintf("-quick=%t", *quick)) // #nosec G204 -- it is this program
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// keep puts a result in the place of the last one, and writes all.
func (f *figures) keep(r overload.Result) error {
	if i := slices.IndexFunc(f.Results, func(old overload.Result) bool { return old.Name == r.Name }); i >= 0 {
		f.Results[i] = r
	} else {
		f.Results = append(f.Results, r)
	}
	return report.Save(*raw, f)
}
