package pagecmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	kept "github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// recording is what a program writes that calls a dependency once a second for a minute.
func recording(t *testing.T, name string) string {
	t.Helper()
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		w := record.NewWriter(&file, func(o *kept.Options) { o.Header.Program.Name = "shop" },
			record.WithSettings(func(string) []policy.Setting {
				return []policy.Setting{{Path: "retry.attempts", Value: "3", Source: "shop.yaml:7"}}
			}))
		d := gabion.New(name, policy.Policy{}, gabion.WithObserver(w))
		for range 60 {
			if err := d.Run(t.Context(), func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
	})
	return file.String()
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// playing starts the command, and returns its address and a function that ends it as
// Ctrl-C does.
func playing(t *testing.T, args ...string) (address string, end func() (code int, stderr string)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var stderr bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(ctx, Command(), args, in, &stderr)
		_ = in.CloseWithError(errors.New("the command has ended"))
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		<-done
		t.Fatalf("it prints no address: %v, %s", err, stderr.String())
	}
	return strings.TrimSpace(line), func() (int, string) { stop(); return <-done, stderr.String() }
}

func get(t *testing.T, address, host string) (status int, body string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		q.Host = host
	}
	w, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, string(text)
}

// frame is what a test wants to know of a page's state.
type frame struct {
	At     int64 `json:"at"`
	Title  string
	Replay struct {
		First, Last int64
		Speed       float64
		Events      int
	}
	Tiles []struct{ Name string }
}

func TestARecordingIsPlayedOnAPage(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // as every bubble does
	whole, other := recording(t, "bank"), recording(t, "mail")
	for fact, c := range map[string]struct {
		text   string
		args   []string
		tile   string
		events int
		from   time.Duration
		speed  float64
		says   string
	}{
		"from its beginning":           {whole, nil, "bank", 180, 0, 1, ""},
		"from a moment, faster":        {whole, []string{"--from", "30s", "--speed", "20"}, "bank", 180, 30 * time.Second, 20, ""},
		"from a time":                  {whole, []string{"--from", "2000-01-01T00:00:40Z"}, "bank", 180, 40 * time.Second, 1, ""},
		"from a time of day":           {whole, []string{"--from", "00:00:40"}, "bank", 180, 40 * time.Second, 1, ""},
		"the last of two runs":         {whole + other, nil, "mail", 180, 0, 1, "has 2 runs: this is number 2"},
		"the run that is named":        {whole + other, []string{"--run", "1"}, "bank", 180, 0, 1, "this is number 1"},
		"one that was cut off":         {whole[:len(whole)-5], nil, "bank", 179, 0, 1, "cut off here; what is whole is played"},
		"one that is damaged at last":  {whole + "what?\n", nil, "bank", 180, 0, 1, "line 183: invalid"},
		"a simulation goes faster":     {strings.Replace(whole, `"program":`, `"virtual":true,"program":`, 1), nil, "bank", 180, 0, 10, ""},
		"a recording without a header": {whole[strings.Index(whole, `{"at"`):], nil, "bank", 180, 0, 1, ""},
	} {
		t.Run(fact, func(t *testing.T) {
			address, end := playing(t, append([]string{written(t, c.text)}, c.args...)...)
			status, body := get(t, address+"api/v1/state", "")
			var f frame
			if err := json.Unmarshal([]byte(body), &f); err != nil || status != http.StatusOK {
				t.Fatalf("status %d, %v: %s", status, err, body)
			}
			zero := began
			if !strings.HasPrefix(c.text, `{"kind"`) {
				zero = time.Unix(0, 0)
			}
			if first := time.UnixMilli(f.Replay.First); !first.Equal(zero) || f.Replay.Events != c.events || f.Replay.Speed != c.speed {
				t.Errorf("replay %+v from %v", f.Replay, first)
			}
			if at := time.UnixMilli(f.At); at.Before(zero.Add(c.from)) || at.After(zero.Add(c.from+20*time.Second)) || f.Title != "calls.jsonl" {
				t.Errorf("%q is at %v, want %v", f.Title, at, zero.Add(c.from))
			}
			if len(f.Tiles) != 1 || f.Tiles[0].Name != c.tile {
				t.Errorf("tiles %+v, want %s", f.Tiles, c.tile)
			}
			if status, body := get(t, address+"api/v1/dependency?name="+c.tile, ""); status != http.StatusOK || c.says == "" && zero.Equal(began) && !strings.Contains(body, "shop.yaml:7") {
				t.Errorf("status %d, without the recording's settings: %s", status, body)
			}
			code, stderr := end()
			if code != cli.ExitOK || !strings.Contains(stderr, c.says) || c.says == "" && stderr != "" {
				t.Errorf("exit code %d, %q", code, stderr)
			}
		})
	}
}

// A site can make its name point to this machine; browsers then take the page for its.
func TestThePageAnswersToThisMachineOnly(t *testing.T) {
	address, end := playing(t, written(t, recording(t, "bank")))
	for host, want := range map[string]int{"": 200, "localhost:80": 200, "evil.example:80": 403, "evil.example": 403} {
		if status, _ := get(t, address, host); status != want {
			t.Errorf("host %q: status %d, want %d", host, status, want)
		}
	}
	if code, stderr := end(); code != cli.ExitOK || stderr != "" || !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Errorf("exit code %d, %q, %s", code, stderr, address)
	}
}

func TestAPageThatOthersReachHasAnAddressForThisMachineAndAWarning(t *testing.T) {
	address, end := playing(t, written(t, recording(t, "bank")), "--listen", "0.0.0.0:0")
	if status, _ := get(t, address, ""); status != http.StatusOK || !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Errorf("%s: status %d", address, status)
	}
	if code, stderr := end(); code != cli.ExitOK || !strings.Contains(stderr, "Anyone who can reach this machine") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// The page shows times of day in the zone of the browser, and gabion explain in UTC.
func TestATimeOfDayIsTheFirstInTheRecording(t *testing.T) {
	here := time.FixedZone("here", 2*60*60)
	at := func(text string) time.Time {
		t.Helper()
		at, err := time.Parse(time.RFC3339Nano, "2026-11-"+text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	f := &film{first: at("22T21:30:00.5Z"), last: at("23T06:00:00Z")}
	for text, want := range map[string]time.Time{
		"23:30:00":    at("22T21:30:00Z"), // the page leaves out parts of a second
		"23:45:00":    at("22T21:45:00Z"), // also 23:45 UTC, which is later
		"00:10:00":    at("22T22:10:00Z"),
		"07:59:59.25": at("23T05:59:59.25Z"),
		"21:31:00":    at("22T21:31:00Z"), // as gabion explain shows it: here it was over
	} {
		if got, err := f.moment(text, here); err != nil || !got.Equal(want) {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	if _, err := f.moment("12:00:00", here); err == nil {
		t.Error("a time of day that is not in the recording is taken")
	}
	if _, err := f.moment("noon", here); err == nil || !strings.Contains(err.Error(), "such as 23:30:00 or 2026-11-22T21:30:00Z") {
		t.Errorf("what is no time: %v", err)
	}
}

// taken is an address that another program listens at.
func taken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestWhatCanNotBePlayedIsSaid(t *testing.T) {
	whole := recording(t, "bank")
	path := written(t, whole)
	for fact, c := range map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"nothing":                     {nil, cli.ExitUsage, "no recording is named"},
		"two files":                   {[]string{path, path}, cli.ExitUsage, "is not expected"},
		"a file that is not there":    {[]string{"/nowhere.jsonl"}, cli.ExitFailure, "no such file"},
		"a folder":                    {[]string{t.TempDir()}, cli.ExitUsage, "is a directory: name a recording in it"},
		"standard input":              {[]string{"-"}, cli.ExitUsage, "standard input is no file: the page reads a recording more than once: write it to a file first"},
		"a pipe":                      {[]string{os.DevNull}, cli.ExitUsage, "is no file: the page reads"},
		"what a later version wrote":  {[]string{written(t, `{"kind":"header","version":2}`+"\n")}, cli.ExitFindings, "a later version of gabion may have written it: a newer gabion command reads it\x00"},
		"half a header":               {[]string{written(t, whole[:20])}, cli.ExitFindings, "cut off here, before its first event"},
		"what is no recording":        {[]string{written(t, "hello\n")}, cli.ExitFindings, "line 1: "},
		"an empty file":               {[]string{written(t, "")}, cli.ExitFindings, "is empty: it has no events. Is the writer attached"},
		"a header alone":              {[]string{written(t, whole[:strings.Index(whole, "\n")+1])}, cli.ExitFindings, "is empty: it has no events"},
		"a run that is not there":     {[]string{path, "--run", "2"}, cli.ExitUsage, "has no run 2: it has 1"},
		"no number of a run":          {[]string{path, "--run", "-1"}, cli.ExitUsage, "from 1"},
		"a speed below nothing":       {[]string{path, "--speed", "-1"}, cli.ExitUsage, "--speed"},
		"no speed at all":             {[]string{path, "--speed", "0"}, cli.ExitUsage, "--speed: write a number above 0"},
		"a speed that is no number":   {[]string{path, "--speed", "NaN"}, cli.ExitUsage, "--speed: write a number above 0"},
		"a time of day after the end": {[]string{path, "--from", "13:17:30"}, cli.ExitUsage, "goes from 2000-01-01T00:00:00Z to 2000-01-01T00:00:59Z"},
		"a port in use":               {[]string{path, "--listen", taken(t)}, cli.ExitFailure, "another program has this port; port 0 takes one that is free"},
		"an invalid address":          {[]string{path, "--listen", "8080"}, cli.ExitFailure, "--listen wants a free host:port, such as 127.0.0.1:8080"},
		"an invalid moment":           {[]string{path, "--from", "noon"}, cli.ExitUsage, "write 90s, or a time such as "},
		"a moment after the end":      {[]string{path, "--from", "2m"}, cli.ExitUsage, "goes from 2000-01-01T00:00:00Z to 2000-01-01T00:00:59Z"},
		"a foreign address":           {[]string{path, "--listen", "192.0.2.1:1"}, cli.ExitFailure, "192.0.2.1"},
	} {
		var stdout, stderr bytes.Buffer
		code := cli.Run(t.Context(), Command(), c.args, &stdout, &stderr)
		if text := strings.Join(strings.Fields(stderr.String()), " ") + "\x00"; code != c.code || !strings.Contains(text, c.stderr) || stdout.Len() > 0 {
			t.Errorf("%s: exit code %d, want %d: %s", fact, code, c.code, text)
		}
	}
	var stdout bytes.Buffer
	if code := cli.Run(t.Context(), Command(), []string{"-h"}, &stdout, io.Discard); code != cli.ExitOK || !strings.Contains(stdout.String(), "--speed") {
		t.Errorf("help: exit code %d", code)
	}
}
