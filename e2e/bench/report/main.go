// Command report runs the benchmarks of package bench and writes what came out as
// docs/performance.md and docs/performance-figures.md. Nothing in these files is written by hand.
// It writes neither if the machine was busy or the figures differ too much between rounds.
//
//	go run ./report                    # all of it, as make bench does
//	go run ./report -quick -out /tmp   # to see whether it works
//	go run ./report -from ../../bin/bench.txt
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/gabion-go/gabion/e2e/bench"
	"github.com/gabion-go/gabion/internal/report"
)

var (
	headline  = flag.Int("headline", 10, "rounds of the rows that matter most")
	most      = flag.Int("most", 20, "rounds of these rows at most, while what is known of them is not exact enough")
	rest      = flag.Int("rest", 6, "rounds of the others")
	benchtime = flag.Duration("benchtime", 150*time.Millisecond, "time of each measurement")
	quick     = flag.Bool("quick", false, "one round of a millisecond each: does it work?")
	out       = flag.String("out", "../../docs", "the folder to write performance.md and performance-figures.md to")
	readme    = flag.String("readme", "../../README.md", "the file whose marked block is written too, if it has one")
	raw       = flag.String("raw", "../../bin/bench.txt", "where to keep what go test printed, for benchstat")
	from      = flag.String("from", "", "write the report from such a file, and measure nothing")
)

func main() { report.Main(run) }

func run() error {
	command := report.Command("make bench")
	if *quick {
		*headline, *rest, *benchtime, *readme = 1, 1, time.Millisecond, ""
	}
	text, err := measured(command)
	if err != nil {
		return err
	}
	r, err := read(text)
	if err != nil {
		return err
	}
	m, err := machineOf(text)
	if err != nil {
		return err
	}
	if err := quiet(r, m); err != nil && !*quick {
		return fmt.Errorf("nothing was written: %w", err)
	}
	page := render(r, m)
	for name, text := range map[string]string{"performance.md": page, "performance-figures.md": renderFigures(r)} {
		check := func(text string) error {
			_, err := parse(text)
			return err
		}
		if err := report.Write(filepath.Join(*out, name), text, check); err != nil {
			return err
		}
	}
	return intoReadme(page)
}

// measured returns what the benchmarks printed, with what is to be said about the
// run in front.
func measured(command string) ([]byte, error) {
	if *from != "" {
		return os.ReadFile(*from)
	}
	dir, err := os.MkdirTemp("", "gabion-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "bench.test")
	if said, err := report.Alone("go", "test", "-c", "-o", program, ".").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, said)
	}
	if !*quick {
		calmDown()
	}
	about, err := describe(command)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	text, n, err := rounds(program)
	if err != nil {
		return nil, err
	}
	about += fmt.Sprintf("rounds: %d %d %s\n", n, *rest, *benchtime)
	about += fmt.Sprintf("took: %s\n\n", time.Since(start).Round(time.Second))
	text = append([]byte(about), text...)
	if err := os.MkdirAll(filepath.Dir(*raw), 0o755); err != nil {
		return nil, err
	}
	return text, os.WriteFile(*raw, text, 0o644)
}

// rounds runs everything once per round. Several short rounds see more of a
// machine's moods than one long one. The rows that matter most get more rounds while too
// little is known of them: one or two that something disturbed then move no median.
func rounds(program string) (text []byte, n int, err error) {
	var all bytes.Buffer
	least := max(*headline, *rest)
	for n < least || n < *most && !*quick && unsure(all.Bytes()) {
		start := time.Now()
		cmd := exec.Command(program, "-test.run", "^$", "-test.bench", pattern(n), "-test.benchtime", benchtime.String(), "-test.timeout", "10m")
		cmd.Stderr = os.Stderr
		said, err := cmd.Output()
		all.Write(said)
		if err != nil {
			return nil, n, fmt.Errorf("%w\n%s", err, said)
		}
		n++
		fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", n, max(least, n), time.Since(start).Round(time.Second))
	}
	return all.Bytes(), n, nil
}

// unsure reports whether a row that matters most differs too much between the rounds so far.
func unsure(text []byte) bool {
	r, err := read(text)
	return err == nil && spread(r) != nil
}

// pattern names what round i measures.
func pattern(i int) string {
	var names []string
	for _, c := range bench.Contests() {
		if c.Headline || !c.Headline && i < *rest {
			names = append(names, regexp.QuoteMeta(c.Name))
		}
	}
	contests := "^BenchmarkContest$/^(" + strings.Join(names, "|") + ")$"
	if i < *rest {
		return "^Benchmark(Contest|Holdings)$/^(" + strings.Join(append(names, holdings()...), "|") + ")$"
	}
	return contests
}

func holdings() (names []string) {
	for _, h := range bench.Holdings() {
		names = append(names, h.Name)
	}
	return names
}

// machine is what is said about the run.
type machine struct {
	command, took, load   string
	os, arch, goVersion   string
	benchtime             string
	procs, headline, rest int
	modules               []string
}

// describe writes what machineOf reads, in the key: value lines that benchmark
// files begin with.
func describe(command string) (string, error) {
	var b strings.Builder
	say := func(key string, v any) { fmt.Fprintf(&b, "%s: %v\n", key, v) }
	say("command", command)
	say("procs", runtime.GOMAXPROCS(0))
	say("go", runtime.Version())
	if load := report.LoadAverage(); load != "" {
		say("load", load)
	}
	list, err := report.Alone("go", "list", "-m", "-f", "{{if not (or .Main .Indirect .Replace)}}{{.Path}} {{.Version}}{{end}}", "all").Output()
	if err != nil {
		return "", err
	}
	for i, line := range strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(list)), " ", "@")) {
		say(fmt.Sprintf("module%d", i+1), strings.ReplaceAll(line, "@", " "))
	}
	return b.String(), nil
}

func machineOf(text []byte) (m machine, err error) {
	for line := range strings.Lines(string(text)) {
		key, v, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		switch {
		case key == "command":
			m.command = v
		case key == "took":
			m.took = v
		case key == "load":
			m.load = v
		case key == "goos":
			m.os = v
		case key == "goarch":
			m.arch = v
		case key == "go":
			m.goVersion = v
		case key == "procs":
			_, err = fmt.Sscan(v, &m.procs)
		case key == "rounds":
			_, err = fmt.Sscan(v, &m.headline, &m.rest, &m.benchtime)
		case strings.HasPrefix(key, "module"):
			m.modules = append(m.modules, v)
		}
		if err != nil {
			return m, fmt.Errorf("%q: %w", line, err)
		}
	}
	return m, nil
}
