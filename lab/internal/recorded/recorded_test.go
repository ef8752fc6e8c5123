package recorded

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// folder holds one file.
func folder(t testing.TB, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLatenciesAreRead(t *testing.T) {
	for _, c := range []struct{ fact, file, text, spec, want string }{
		{"a number a line", "x.txt", "12.5\n3\n\n# a remark\n0\n", "x.txt ms", "[0s 3ms 12.5ms]"},
		{"durations a line", "x.txt", "1.5s\r\n250ms\r\n0s", "x.txt", "[0s 250ms 1.5s]"},
		{"both", "x", "1.5s\n250\n", "x us", "[250µs 1.5s]"},
		{"a column by its name", "x.csv", "id,took\na,20\nb,10\n", "x.csv, column took ms", "[10ms 20ms]"},
		{"a column by its number, with a head", "x.csv", "id,took\na,20\nb,10\n", "x.csv, column 2 ms", "[10ms 20ms]"},
		{"and without one", "x.csv", "a,20\nb,10\n", "x.csv, column 2 ms", "[10ms 20ms]"},
		{"quotes", "x.csv", "\"the id\",\"took, in ms\"\n\"a,\"\"b\"\"\", \"20\"\n", "x.csv, column 2 ms", "[20ms]"},
		{"semicolons", "x.csv", "id;took\na;20\n", "x.csv, column took ms", "[20ms]"},
		{"tabs", "x.tsv", "id\ttook ms\na, b\t20\n", "x.tsv, column 2 ms", "[20ms]"},
		{"a byte order mark", "x.csv", "\ufefftook\n20\n", "x.csv, column took ms", "[20ms]"},
		{"fields of objects", "x.jsonl", `{"ms":20}` + "\n" + `{"ms":"1s","x":{}}` + "\n", "x.jsonl, column ms ms", "[20ms 1s]"},
		{"fields of objects in objects", "x.ndjson", `{"http":{"took":0.25}}`, "x.ndjson, column http.took s", "[250ms]"},
		{"scientific numbers", "x.txt", "1e-3\n2.5E2\n", "x.txt s", "[1ms 4m10s]"},
	} {
		got, found, problem := Latencies(folder(t, c.file, c.text), c.spec)
		if problem != "" || len(found) > 0 || fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, %v, %s, want %s", c.fact, got, found, problem, c.want)
		}
	}
}

func TestCallsAreRead(t *testing.T) {
	for _, c := range []struct{ fact, file, text, spec, at, took, status string }{
		{"times a line", "x.txt", "100\n100.5\n102\n", "x.txt s", "[0s 500ms 2s]", "[]", "[]"},
		{"dates, as they ended", "x.csv", "when,ms,code\n2026-11-21T10:00:01.5Z,20,200\n2026-11-21T11:00:01+01:00,10,503\n", "x.csv, at when, took ms ms, status code", "[0s 500ms]", "[10ms 20ms]", "[503 200]"},
		{"milliseconds since 1970", "x.jsonl", `{"t":1763719200500,"d":"1s"}` + "\n" + `{"t":1763719200000,"d":"2s"}`, "x.jsonl, at t ms, took d", "[0s 500ms]", "[2s 1s]", "[]"},
		{"nanoseconds since 1970 are whole", "x.txt", "1763719200000000001\n1763719200000000003\n", "x.txt ns", "[0s 2ns]", "[]", "[]"},
		{"later", "x.txt", "5\n6\n", "x.txt s, begin 1m", "[1m0s 1m1s]", "[]", "[]"},
		{"no answer", "x.csv", "0,5,0\n", "x.csv, at 1 s, took 2 ms, status 3", "[0s]", "[5ms]", "[0]"},
		{"no connection", "x.csv", "0,5,refused\n", "x.csv, at 1 s, took 2 ms, status 3", "[0s]", "[5ms]", "[-1]"},
	} {
		got, found, problem := Read(folder(t, c.file, c.text), c.spec)
		if problem != "" || len(found) > 0 || fmt.Sprint(got.At) != c.at || fmt.Sprint(got.Took) != c.took || fmt.Sprint(got.Status) != c.status {
			t.Errorf("%s: %v, %v, %s", c.fact, got, found, problem)
		}
	}
}

// A mistake in a file is reported with its line, a caret and what to do.
func TestMistakesHaveTheirPlace(t *testing.T) {
	long := strings.Repeat("1", maxLine+1)
	for _, c := range []struct{ fact, file, text, spec, want string }{
		{"no unit", "x.txt", "1\n", "x.txt", "x.txt:1:1: \"1\" has no unit\n  | 1\n  | ^ say which behind the name in the scenario"},
		{"a word", "x.csv", "id,took\na,20\nb, soon\n", "x.csv, column took ms", "x.csv:3:4: \"soon\" is no latency\n  | b, soon\n  |    ^ write one such as 12.5 or 12.5ms"},
		{"nothing", "x.csv", "id,took\na,\n", "x.csv, column took ms", "x.csv:2:3: there is no latency"},
		{"below nothing", "x.txt", "-1\n", "x.txt ms", "x.txt:1:1: \"-1\" is negative"},
		{"no number", "x.txt", "NaN\n", "x.txt ms", "\"NaN\" is no latency"},
		{"for ever", "x.txt", "Inf\n", "x.txt ms", "\"Inf\" is no latency"},
		{"too long", "x.txt", "3000000\n", "x.txt s", "is longer than a month\n  | 3000000\n  | ^ is the unit right?"},
		{"far too long", "x.txt", "1e300\n", "x.txt s", "is too large"},
		{"a column that is not there", "x.csv", "id,took\n", "x.csv, column tok ms", "x.csv:1:1: there is no column \"tok\"\n  | id,took\n  | ^ did you mean took?"},
		{"a line that is too short", "x.csv", "id,took\na\n", "x.csv, column took ms", "x.csv:2:2: the line has no column took"},
		{"a quote that is open", "x.csv", "id,took\n\"a,1\n", "x.csv, column took ms", "x.csv:2:1: a quote is open or out of place"},
		{"no object", "x.jsonl", "{\"ms\":1}\n[1]\n", "x.jsonl, column ms ms", "x.jsonl:2:1: the line is no JSON object"},
		{"a field that is not there", "x.jsonl", "{\"id\":1,\"took\":2}\n", "x.jsonl, column tok ms", "did you mean took?"},
		{"a field that is null", "x.jsonl", "{\"id\":1,\"ms\":null}\n", "x.jsonl, column ms ms", "x.jsonl:1:9: there is no field \"ms\""},
		{"a field that is an object", "x.jsonl", "{\"id\":1,\"ms\":{}}\n", "x.jsonl, column ms ms", "x.jsonl:1:9: field \"ms\" is neither a number nor a text"},
		{"an empty file", "x.txt", "", "x.txt ms", "x.txt:1:1: there is no latency"},
		{"a line without an end", "x.txt", "1\n" + long, "x.txt ms", "x.txt:2:1: the line is longer than 65536 bytes"},
		{"no text", "x.txt", "1\n\xff\xfe\n", "x.txt ms", "x.txt:2:1: the line is not UTF-8"},
		{"what a terminal would obey", "x.txt", "\x1b[31m\n", "x.txt ms", "·[31m"},
	} {
		_, found, problem := Latencies(folder(t, c.file, c.text), c.spec)
		if problem != "" || len(found) != 1 || !strings.Contains(found.Error(), c.want) || strings.Contains(found.Error(), "\x1b") {
			t.Errorf("%s: %v, %s\nwant %s", c.fact, found, problem, c.want)
		}
	}
	for _, c := range []struct{ fact, text, spec, want string }{
		{"an impossible date", "2026-13-01T00:00:00Z,1\n", "x.csv, at 1, took 2 ms", "is no time of RFC 3339"},
		{"a time without a unit", "1,1\n", "x.csv, at 1, took 2 ms", "x.csv:1:1: \"1\" has no unit"},
		{"an invalid status", "1,2,ok\n", "x.csv, at 1 s, took 2 ms, status 3", "x.csv:1:5: \"ok\" is no status of HTTP"},
		{"no call", "# at\n", "x.csv, at 1 s", "there is no call"},
		{"months", "1,1\n3000000,1\n", "x.csv, at 1 s, took 2 ms", "the calls span 35 days, and 31 are the most"},
	} {
		_, found, problem := Read(folder(t, "x.csv", c.text), c.spec)
		if problem != "" || !strings.Contains(found.Error(), c.want) {
			t.Errorf("%s: %v, %s\nwant %s", c.fact, found, problem, c.want)
		}
	}
	_, found, _ := Latencies(folder(t, "x.txt", strings.Repeat("soon\n", 100)), "x.txt ms")
	if len(found) != maxFindings {
		t.Errorf("%d mistakes are told of a hundred", len(found))
	}
}

func TestSpecsThatSayNothing(t *testing.T) {
	dir := folder(t, "x.csv", "1\n")
	for spec, want := range map[string]string{
		"":                                  "names no file",
		"x.csv":                             "does not say which column",
		"x.txt, column 1 ms":                "has one value a line",
		"x.csv, colum 1 ms":                 `has "colum" where one of column belongs`,
		"x.csv, column":                     "a column without a name",
		"x.csv, column 1, column 2":         "has column twice",
		"y.csv, column 1 ms":                "can't be read: no such file",
		"../" + filepath.Base(dir) + "/y":   "no such file",
		".":                                 "it is a folder",
		"x.csv, at 1":                       `has "at" where`,
		filepath.Join(dir, "none.txt"):      "none.txt, that can't be read",
		"x.csv, column 1 ms, begin 5s, x y": `has "begin" where`,
	} {
		if _, _, problem := Latencies(dir, spec); !strings.Contains(problem, want) {
			t.Errorf("%q: %q, want %q", spec, problem, want)
		}
	}
	for spec, want := range map[string]string{
		"x.csv, at 1 s, status 2":     "no word on how long",
		"x.csv, took 1 s":             "does not say which column",
		"x.csv, at 1 s, begin sooner": `begins at "sooner"`,
		"x.txt, took 1 s":             "has one value a line",
	} {
		if _, _, problem := Read(dir, spec); !strings.Contains(problem, want) {
			t.Errorf("%q: %q, want %q", spec, problem, want)
		}
	}
}

// A file that does not end is not kept in memory.
func TestTooManyValuesAreRefused(t *testing.T) {
	dir := folder(t, "x.txt", strings.Repeat("1\n", maxValues+1))
	if _, found, _ := Latencies(dir, "x.txt ms"); len(found) != 1 || !strings.Contains(found.Error(), "more than 1000000 values") {
		t.Errorf("%v", found)
	}
}

func FuzzLatencies(f *testing.F) {
	for _, text := range []string{"1\n2ms\n", "a,b\n1,2\n", `{"b":1}`, "\"a\"\"b\",1", "1;2", "0.0ms", "1e9\n-0", "\ufeffb\n7"} {
		f.Add(text, "x.csv, column 2 ms")
		f.Add(text, "x.jsonl, column b ms")
		f.Add(text, "x.txt s")
	}
	f.Fuzz(func(t *testing.T, text, spec string) {
		s, problem := parse(spec, ofLatencies)
		if problem != "" {
			return
		}
		s.File = "x" + filepath.Ext(s.File)
		if strings.ContainsAny(s.File, "/\x00") || len(s.File) > 50 {
			return
		}
		tb := table{shape: s.shape(), parts: []string{s.Column.Name}}
		var got []time.Duration
		tb.each(folder(t, s.File, text), s.File, func(cells []cell) bool {
			d, ok := tb.duration(cells[0], s.Column.Unit)
			if ok {
				got = append(got, d)
			}
			return ok
		})
		if len(got) > 0 && (slices.Min(got) < 0 || slices.Max(got) > longest) {
			t.Errorf("%v", got)
		}
		_ = tb.found.Error()
	})
}
