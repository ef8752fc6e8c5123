package record_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// entries reads a recording to its end.
func entries(r io.Reader) (all []recording.Entry, err error) {
	for e, failure := range recording.Entries(r) {
		if failure != nil {
			err = failure
			continue
		}
		all = append(all, e)
	}
	return all, err
}

func succeed(context.Context) error { return nil }

// Each dependency's instants count from when it was made.
func TestARecordingKnowsTheWallClockOfEveryDependency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		w := record.NewWriter(&file)
		began := time.Now()
		early := gabion.New("early", policy.Policy{}, gabion.WithObserver(w))
		time.Sleep(time.Hour)
		late := gabion.New("late", policy.Policy{}, gabion.WithObserver(w))
		time.Sleep(time.Minute)
		for _, d := range []*gabion.Dependency{early, late} {
			if err := d.Run(t.Context(), succeed); err != nil {
				t.Fatal(err)
			}
		}
		all, err := entries(&file)
		if err != nil || len(all) != 6 {
			t.Fatalf("%d events, %v", len(all), err)
		}
		for _, e := range all {
			if got := e.Time(e.Event.At); !got.Equal(began.Add(time.Hour + time.Minute)) {
				t.Errorf("%s: an event is of %s, want an hour and a minute after %s", e.Event.Dependency, got, began)
			}
			if !e.Header.Time.Equal(began.Add(time.Hour + time.Minute)) {
				t.Errorf("the header is of %s", e.Header.Time)
			}
		}
	})
}

// A name may be taken again: an instance that was idle is forgotten and made anew.
func TestANameThatIsTakenAgainHasANewClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		w := record.NewWriter(&file)
		var want []time.Time
		for range 3 {
			d := gabion.New("bank/eu", policy.Policy{}, gabion.WithObserver(w))
			for range 2 {
				time.Sleep(time.Hour)
				if err := d.Run(t.Context(), succeed); err != nil {
					t.Fatal(err)
				}
				want = append(want, time.Now(), time.Now(), time.Now())
			}
		}
		if n := strings.Count(file.String(), `"kind":"dependency"`); n != 3 {
			t.Errorf("%d lines about 3 dependencies", n)
		}
		all, err := entries(&file)
		if err != nil || len(all) != len(want) {
			t.Fatalf("%d events, %v", len(all), err)
		}
		for i, e := range all {
			if got := e.Time(e.Event.At); !got.Equal(want[i]) {
				t.Errorf("line %d: %s, want %s", e.Line, got, want[i])
			}
		}
	})
}

// An event about a dependency may wait for a call that delivers it.
func TestALateEventDoesNotMoveAClock(t *testing.T) {
	var file bytes.Buffer
	w := record.NewWriter(&file)
	w.Observe(t.Context(), policy.Event{Kind: policy.KindReturned, Dependency: "a", Call: 1, At: policy.Instant(time.Hour)})
	w.Observe(t.Context(), policy.Event{Kind: policy.KindBreakerMoved, Dependency: "a", Seq: 1, At: policy.Instant(time.Minute)})
	if n := strings.Count(file.String(), `"kind":"dependency"`); n != 1 {
		t.Errorf("%d lines about one dependency:\n%s", n, file.String())
	}
}

func TestARecordingNamesItsProgram(t *testing.T) {
	var file bytes.Buffer
	w := record.NewWriter(&file, record.WithPolicyFile("gabion.yaml"), func(o *recording.Options) { o.Header.Note = "a test" })
	w.Observe(t.Context(), policy.Event{Kind: policy.KindReturned})
	if first, _, _ := strings.Cut(file.String(), "\n"); !strings.HasPrefix(first, `{"kind":"header","version":1,"time":"`) {
		t.Errorf("the first line is %s", first)
	}
	all, err := entries(&file)
	if err != nil {
		t.Fatal(err)
	}
	h := all[0].Header
	if h.Program != recording.ThisProgram() || h.Program.PID != os.Getpid() || h.Program.Name == "" || h.Program.Host != "" {
		t.Errorf("program %+v", h.Program)
	}
	if h.PolicyFile != "gabion.yaml" || h.Note != "a test" || h.Virtual || h.Time.IsZero() {
		t.Errorf("header %+v", h)
	}
}

func TestAPolicyIsNamedAndNamedAnewAfterAReload(t *testing.T) {
	var file bytes.Buffer
	var d *gabion.Dependency
	w := record.NewWriter(&file, record.WithPolicies(func(string) (policy.Policy, bool) { return d.Policy(), true }))
	first := policy.Policy{Retry: policy.Retry{Attempts: 2}}
	second := policy.Policy{Retry: policy.Retry{Attempts: 4}}
	d = gabion.New("bank", first, gabion.WithObserver(w))
	run := func() {
		if err := d.Run(t.Context(), succeed); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if err := d.Reload(second); err != nil {
		t.Fatal(err)
	}
	run()
	all, err := entries(&file)
	if err != nil {
		t.Fatal(err)
	}
	want := record.PolicyHash(first)
	for _, e := range all {
		if e.Event.Kind == policy.KindReloaded {
			want = record.PolicyHash(second)
		}
		if e.Origin.Policy != want {
			t.Errorf("line %d, %v: policy %s, want %s", e.Line, e.Event, e.Origin.Policy, want)
		}
	}
	if want != record.PolicyHash(second) {
		t.Error("the reload is not recorded")
	}
	if n := strings.Count(file.String(), `"kind":"dependency"`); n != 0 {
		t.Errorf("%d lines were not read", n)
	}
}

func TestPoliciesThatMeanTheSameHaveTheSameHash(t *testing.T) {
	p := policy.Policy{Retry: policy.Retry{Attempts: 2}}
	other := p
	other.Breaker.Probes = 7
	for fact, q := range map[string]policy.Policy{
		"defaults written out": p.Resolved(),
		"an empty list":        {Retry: policy.Retry{Attempts: 2}, HTTP: policy.HTTP{Transient: []int{}}},
	} {
		if record.PolicyHash(p) != record.PolicyHash(q) {
			t.Errorf("%s: another hash", fact)
		}
	}
	if record.PolicyHash(p) == record.PolicyHash(other) || !strings.HasPrefix(record.PolicyHash(p), "sha256:") {
		t.Error("another policy has the same hash")
	}
}

const (
	event  = `{"at":1,"kind":"returned","dependency":"a","call":7}` + "\n"
	header = `{"kind":"header","version":1,"time":"2026-11-22T12:00:00Z","program":{"name":"shop"}}` + "\n"
	origin = `{"kind":"dependency","dependency":"a","zero":"2026-11-22T12:00:00Z"}` + "\n"
)

// A recording that a killed program left behind is read to where it was cut off.
func TestACutRecordingIsReadToTheCut(t *testing.T) {
	euro := `{"at":1,"kind":"returned","dependency":"€`
	for fact, c := range map[string]struct {
		text string
		read int
		cut  string
	}{
		"within a word":               {event + `{"at":1,"ki`, 1, "line 2: "},
		"within a letter":             {event + euro[:len(euro)-1], 1, "line 2: "},
		"after the first character":   {event + "{", 1, "line 2: "},
		"before the end of the line":  {event + strings.TrimSuffix(event, "\n"), 2, ""},
		"within the header":           {header[:20], 0, "line 1: "},
		"within an origin":            {header + origin[:20], 0, "line 2: "},
		"zeros after a lost power":    {event + "\x00\x00\x00", 1, "line 2: "},
		"a line that ends in zeros":   {event + event[:10] + "\x00\x00", 1, "line 2: "},
		"a run, and another after it": {header + event + event[:20] + header + event, 2, "line 3: "},
		"the same on a line of its own": {
			header + event + event[:20] + "\n" + header + event, 2, "line 3: ",
		},
		"both runs":              {header + event + event[:20] + header + event + event[:9], 2, "line 5: "},
		"not at all":             {header + origin + event, 1, ""},
		"not at all, by any run": {header + origin + event + header + event, 2, ""},
	} {
		t.Run(fact, func(t *testing.T) {
			all, err := entries(strings.NewReader(c.text))
			if len(all) != c.read || errors.Is(err, record.ErrCut) != (c.cut != "") || err != nil && !strings.HasPrefix(err.Error(), c.cut) {
				t.Errorf("%d events, then %v; want %d, then %q", len(all), err, c.read, c.cut)
			}
		})
	}
}

// What is damaged is no cut: what follows it may be anything.
func TestDamageIsNoCut(t *testing.T) {
	for fact, text := range map[string]string{
		"in the middle":                event + "what?\n" + event,
		"at the end":                   event + "what?",
		"half a line in the middle":    event + event[:20] + "\n" + event,
		"before another run":           event + "what?\n" + header,
		"two lines before another run": event + "what?\n" + event[:20] + header,
		"a header of the future":       `{"kind":"header","version":2}` + "\n" + event,
		"a header of other types":      `{"kind":"header","version":1,"program":3}` + "\n" + event,
		"a time that is malformed":     `{"kind":"dependency","dependency":"a","zero":"noon"}` + "\n" + event,
	} {
		if _, err := entries(strings.NewReader(text)); err == nil || errors.Is(err, record.ErrCut) {
			t.Errorf("%s: %v", fact, err)
		}
	}
}

func TestALineOfALaterVersionIsSaidToBeOne(t *testing.T) {
	for text, later := range map[string]bool{
		`{"kind":"header","version":2}`:                   true,
		`{"at":1,"kind":"pondered"}`:                      true,
		`{"at":1,"kind":"returned","reason":"too_lunar"}`: true,
		`{"at":1}`: false,
		`what?`:    false,
	} {
		if _, err := entries(strings.NewReader(text + "\n")); err == nil || errors.Is(err, recording.ErrLater) != later {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestACompressedRecordingMayBeCutToo(t *testing.T) {
	all, err := entries(io.MultiReader(strings.NewReader(event), failing{io.ErrUnexpectedEOF}))
	if len(all) != 1 || !errors.Is(err, record.ErrCut) {
		t.Errorf("%d events, %v", len(all), err)
	}
}

// The calls of each run are numbered from 1 on, and a file may have several.
func TestACallHasOneIDInAFile(t *testing.T) {
	for fact, c := range map[string]struct{ text, ids string }{
		"without a header":                   {event + event, "1.7 1.7"},
		"one run":                            {header + origin + event, "1.7"},
		"two runs":                           {header + event + header + event, "1.7 2.7"},
		"a header after events without one":  {event + header + event, "1.7 2.7"},
		"three, one of which has no event":   {header + header + event, "2.7"},
		"a beginning that could not be kept": {`{"kind":"events_lost","count":3}` + "\n" + header + event, "1 1.7"},
	} {
		all, err := entries(strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", fact, err)
		}
		var ids []string
		for _, e := range all {
			if e.Event.Call == 0 {
				ids = append(ids, string('0'+rune(e.Run)))
				continue
			}
			ids = append(ids, e.ID().String())
		}
		if got := strings.Join(ids, " "); got != c.ids {
			t.Errorf("%s: %s, want %s", fact, got, c.ids)
		}
	}
	for text, want := range map[string]recording.ID{
		"17": {Call: 17}, "1.17": {Run: 1, Call: 17}, "2.18446744073709551615": {Run: 2, Call: 1<<64 - 1},
		"": {}, "0": {}, "1.0": {}, "0.1": {}, "x": {}, "1.2.3": {}, "-1": {}, "1.": {}, "99999999999.1": {},
	} {
		got, err := recording.ParseID(text)
		if got != want || (err == nil) != (want != recording.ID{}) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
		if err == nil && got.String() != text {
			t.Errorf("%q is written %s", text, got)
		}
	}
}

// The origins of a run mean nothing for the next: its clocks began anew.
func TestEachRunHasItsOwnClocks(t *testing.T) {
	all, err := entries(strings.NewReader(header + origin + event + header + event))
	if err != nil || len(all) != 2 {
		t.Fatalf("%d events, %v", len(all), err)
	}
	if all[0].Time(0).IsZero() || !all[1].Time(0).IsZero() || all[1].Origin != nil {
		t.Errorf("the runs begin at %s and %s", all[0].Time(0), all[1].Time(0))
	}
}

// A header that could not be written is written when there is room again.
func TestAHeaderOutlivesAFullDisk(t *testing.T) {
	for name, part := range map[string]int{"nothing of it was written": 0, "a part of it was": 20} {
		t.Run(name, func(t *testing.T) {
			disk := &fills{part: part, full: true}
			w := record.NewWriter(disk)
			w.Observe(t.Context(), full(policy.KindReturned))
			disk.full = false
			w.Observe(t.Context(), full(policy.KindReturned))
			all, err := entries(&disk.Buffer)
			if err != nil || len(all) != 2 {
				t.Fatalf("%d events, %v", len(all), err)
			}
			last := all[1]
			if last.Run != 1 || last.Header == nil || last.Origin == nil || last.Event.Kind != policy.KindReturned {
				t.Errorf("got %+v", last)
			}
		})
	}
}

func TestASimulationHasNoWallClock(t *testing.T) {
	write := func() string {
		var file bytes.Buffer
		zero := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		w := record.NewWriter(&file, func(o *recording.Options) {
			o.Zero, o.Header.Virtual, o.Header.Program = zero, true, recording.Program{Name: "lab"}
		})
		w.Observe(t.Context(), policy.Event{Kind: policy.KindReturned, Dependency: "a", At: 5})
		all, err := entries(bytes.NewReader(file.Bytes()))
		if err != nil || !all[0].Header.Virtual || !all[0].Time(5).Equal(zero.Add(5)) {
			t.Errorf("%+v, %v", all, err)
		}
		return file.String()
	}
	if a, b := write(), write(); a != b {
		t.Errorf("two recordings of one simulation differ:\n%s\n%s", a, b)
	}
}

// The keys of lines stay the same for ever, for readers other than this package.
func TestTheLinesAroundEventsKeepTheirKeys(t *testing.T) {
	var file bytes.Buffer
	w := record.NewWriter(&file, record.WithPolicyFile("f"), func(o *recording.Options) {
		o.Zero, o.Header.Virtual, o.Header.Note = time.Unix(0, 0).UTC(), true, "n"
		o.Header.Program = recording.Program{Name: "p", Version: "v", Revision: "r", Modified: true, Go: "g", PID: 1, Host: "h"}
	},
		record.WithPolicies(func(string) (policy.Policy, bool) { return policy.Policy{}, true }),
		record.WithSettings(func(of string) []policy.Setting {
			return []policy.Setting{{Path: "retry.attempts", Value: "3", Source: of}}
		}))
	w.Observe(t.Context(), policy.Event{Kind: policy.KindReturned, Dependency: "a"})
	lines := strings.Split(file.String(), "\n")
	const head = `{"kind":"header","version":1,"time":"1970-01-01T00:00:00Z","program":{"name":"p","version":"v","revision":"r",` +
		`"modified":true,"go":"g","pid":1,"host":"h"},"policy_file":"f","note":"n","virtual":true}`
	if lines[0] != head {
		t.Errorf("header\n%s\nwant\n%s", lines[0], head)
	}
	var about map[string]any
	if err := json.Unmarshal([]byte(lines[1]), &about); err != nil {
		t.Fatal(err)
	}
	if about["policy"] != record.PolicyHash(policy.Policy{}) || about["dependency"] != "a" || about["zero"] != "1970-01-01T00:00:00Z" || len(about) != 5 || !strings.HasSuffix(lines[1], `"settings":[{"path":"retry.attempts","value":"3","source":"a"}]}`) {
		t.Errorf("origin %s", lines[1])
	}
}
