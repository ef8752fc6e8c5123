package scenario

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
)

// to makes a recording go to a file if it is of that side.
func to(file io.Writer, of int) func(int, string) (io.Writer, error) {
	return func(side int, _ string) (io.Writer, error) {
		if side != of {
			return nil, nil
		}
		return file, nil
	}
}

// recordOf runs a scenario of testdata and returns its study and what was recorded.
func recordOf(t *testing.T, name string, o Options, r Recording) (*Study, string, []recording.Entry) {
	t.Helper()
	var file bytes.Buffer
	if r.Open == nil {
		r.Open = to(&file, 0)
	}
	o.Replications, o.Record = 1, &r
	s, _ := run(t, name, o)
	text := file.String()
	var all []recording.Entry
	for e, err := range recording.Entries(&file) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return s, text, all
}

func TestARecordingHasEveryDecisionAboutItsClient(t *testing.T) {
	plain, _ := run(t, "layers", Options{Replications: 1})
	s, text, all := recordOf(t, "layers", Options{}, Recording{Of: "shop", Client: 3})
	_, again, _ := recordOf(t, "layers", Options{}, Recording{Of: "shop", Client: 3})
	if plain.Hash != s.Hash {
		t.Error("a run that is recorded is another one")
	}
	if text != again {
		t.Error("two recordings of one run differ")
	}
	var told []string
	calls := map[uint64]bool{}
	for _, e := range all {
		if !e.Header.Virtual || e.Header.Program.Name != "gabion lab" || e.Origin == nil || e.Origin.Policy == "" || len(e.Origin.Settings) == 0 {
			t.Fatalf("line %d: header %+v, origin %+v", e.Line, e.Header, e.Origin)
		}
		if e.Event.Dependency != "stock" && e.Event.Dependency != "mail" {
			t.Fatalf("line %d is of %q", e.Line, e.Event.Dependency)
		}
		if e.Event.Call == 0 != (e.Event.Seq != 0) {
			t.Errorf("line %d: call %d, number %d", e.Line, e.Event.Call, e.Event.Seq)
		}
		calls[e.Event.Call] = true
		told = append(told, e.Event.String())
	}
	// A watched client has the same events, by another way.
	s, _ = run(t, "layers", Options{Replications: 1, Watch: "shop", WatchClient: 3})
	var watched []string
	for _, l := range s.Timeline {
		watched = append(watched, l.Text)
	}
	if len(told) == 0 || strings.Join(told, "\n") != strings.Join(watched, "\n") {
		t.Errorf("%d events are recorded, and %d decisions were watched", len(told), len(watched))
	}
	if !strings.Contains(text, "layers, seed ") || len(calls) < 3 {
		t.Errorf("%d calls; %s", len(calls), text[:300])
	}
}

// A replica calls others as a client does.
func TestAServicesReplicaIsRecorded(t *testing.T) {
	s, _, all := recordOf(t, "layers", Options{}, Recording{Of: "stock", Client: 1})
	returned := 0
	for _, e := range all {
		if e.Event.Dependency != "database" {
			t.Fatalf("line %d is of %q", e.Line, e.Event.Dependency)
		}
		if e.Event.Kind == policy.KindReturned {
			returned++
		}
	}
	if got := s.Recorded[0]; returned < 100 || got.Of != "stock" || got.Client != 1 || got.Events != len(all) || got.Left != 0 {
		t.Errorf("%d calls returned, of %+v", returned, got)
	}
}

// Every state's own events are in it: the same breaker moves as in the run's counts.
func TestARecordingIsBounded(t *testing.T) {
	_, _, all := recordOf(t, "layers", Options{}, Recording{Of: "stock"})
	s, _, some := recordOf(t, "layers", Options{}, Recording{Of: "stock", Max: 100})
	last := some[len(some)-1].Event
	if len(some) != 101 || last.Kind != policy.KindEventsLost || last.Count != int64(len(all)-100) || s.Recorded[0].Left != len(all)-100 || s.Recorded[0].Events != 100 {
		t.Errorf("%d events, the last %+v; %+v of %d", len(some), last, s.Recorded[0], len(all))
	}
	_, text, _ := recordOf(t, "collapse", Options{}, Recording{Max: 10}) // all that is called is one dependency
	if !strings.Contains(text, policy.KindEventsLost.String()) || strings.Contains(text, `"dependency":""`) {
		t.Errorf("it says %s", text[len(text)-300:])
	}
}

func TestEachSideCanBeRecorded(t *testing.T) {
	files := map[int]*bytes.Buffer{0: {}, 2: {}}
	s, _ := run(t, "layers", Options{Replications: 1, Against: &Policies{Rival: "naive"}, Record: &Recording{Open: func(side int, name string) (io.Writer, error) {
		if files[side] == nil {
			return nil, nil
		}
		fmt.Fprintln(files[side], name)
		return files[side], nil
	}}})
	for i, side := range []int{0, 2} {
		name, text, _ := strings.Cut(files[side].String(), "\n")
		if want := s.Sides[side].Name; name != want || s.Recorded[i].Side != want || !strings.Contains(text, "side "+want+", shop 0") {
			t.Errorf("side %d, %s, is recorded as %s, %+v", side, want, name, s.Recorded[i])
		}
	}
	if len(s.Recorded) != 2 {
		t.Errorf("%d recordings of two sides", len(s.Recorded))
	}
}

func TestWhoIsNotThereIsNotRecorded(t *testing.T) {
	text, err := os.ReadFile("testdata/layers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("layers", text)
	if err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]Recording{
		`no caller is named "shopp": did you mean shop`: {Of: "shopp"},
		`no caller is named "mail"`:                     {Of: "mail"},
		"shop are 40, from 0: there is no 40":           {Of: "shop", Client: 40},
		"stock are 3, from 0: there is no 3":            {Of: "stock", Client: 3},
	} {
		r.Open = func(int, string) (io.Writer, error) { t.Error("it is opened all the same"); return nil, nil }
		if _, err := f.Run(t.Context(), Options{Replications: 1, Record: &r}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", r, err, want)
		}
	}
	for fact, open := range map[string]func(int, string) (io.Writer, error){
		"the disk is full": to(fullDisk{}, 0), "there is no such folder": func(int, string) (io.Writer, error) { return nil, os.ErrNotExist },
	} {
		if _, err := f.Run(t.Context(), Options{Replications: 1, Record: &Recording{Open: open}}); err == nil {
			t.Errorf("no error although %s", fact)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, fmt.Errorf("no space left") }

// Clients that share a state are one program: its recording has the calls of all of them.
func TestClientsThatShareWhatTheyKnowAreRecordedTogether(t *testing.T) {
	f, err := Parse("shares", []byte(`version: 1
title: Shared
story: Two programs, of three clients each.
duration: 30s
replications: 1
clients: {shop: {count: 6, shared: 3, rate: 20/s, calls: [{to: db}]}}
services: {db: {time: 5ms}}
policies:
  db: {safe: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	calls := func(client int) (n int) {
		var file bytes.Buffer
		if _, err := f.Run(t.Context(), Options{Alone: true, Record: &Recording{Client: client, Open: to(&file, 0)}}); err != nil {
			t.Fatal(err)
		}
		for e, err := range recording.Entries(&file) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Event.Kind == policy.KindReturned {
				n++
			}
		}
		return n
	}
	one, same, other := calls(0), calls(2), calls(3)
	if one != same || one < 200 || other < 200 || one+other < 550 {
		t.Errorf("one program made %d calls, or %d, and the other %d, of some 600", one, same, other)
	}
}

// After a reload the recording names the policy that is in force from then on.
func TestAReloadIsRecordedWithItsPolicy(t *testing.T) {
	f, err := Parse("reloads", []byte(`version: 1
title: A reload
story: The policy of the shop changes while it calls.
duration: 10s
replications: 1
clients: {shop: {count: 2, rate: 20/s, calls: [{to: db}]}}
services: {db: {time: 5ms}}
policies:
  db: {safe: true, retry: {attempts: 2}}
  later: {safe: true, retry: {attempts: 5}}
faults: [{kind: reload, clients: shop, at: 5s, policy: later}]
`))
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := f.Run(t.Context(), Options{Alone: true, Record: &Recording{Open: to(&file, 0)}}); err != nil {
		t.Fatal(err)
	}
	seen, want := map[string]bool{}, "2"
	for e, err := range recording.Entries(&file) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event.Kind == policy.KindReloaded {
			want = "5"
		}
		for _, s := range e.Origin.Settings {
			if s.Path == "retry.attempts" {
				if seen[want] = true; s.Value != want {
					t.Errorf("line %d, %v: %s attempts, want %s", e.Line, e.Event, s.Value, want)
				}
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("seen: %v", seen)
	}
}
