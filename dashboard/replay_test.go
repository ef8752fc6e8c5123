package dashboard

import (
	"fmt"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	breakers "github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

var recorded = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

// recording is ten minutes of one call a second, with an open breaker from the fifth on.
func recording() iter.Seq2[time.Time, gabion.Event] {
	return func(yield func(time.Time, gabion.Event) bool) {
		for s := range 600 {
			at := recorded.Add(time.Duration(s) * time.Second)
			e := gabion.Event{Dependency: "bank", At: policy.Instant(s) * policy.Instant(time.Second), Call: uint64(s + 1)}
			if s == 300 {
				m := e
				m.Kind, m.From, m.To, m.Cause, m.Call = policy.KindBreakerMoved, policy.StateClosed, policy.StateOpen, breakers.Consecutive, 0
				m.Until, m.Numbers = e.At.Add(time.Minute), &policy.Numbers{Rule: 20}
				if !yield(at, m) {
					return
				}
			}
			e.Kind, e.Attempt = policy.KindReturned, 1
			if !yield(at, e) {
				return
			}
		}
	}
}

func command(p *Page, body string) int {
	r := httptest.NewRequest("POST", "/api/v1/replay", strings.NewReader(body))
	r.Header.Set("Origin", "http://"+r.Host)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Code
}

// A recording is shown by the same code as a living program, and at the same times.
func TestReplayPlaysWhileSomebodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Replay(Config{Title: "night"}, 10, recording)
		defer p.Close()
		time.Sleep(time.Hour) // no viewer
		r, leave := watch(p, "")
		defer leave()
		synctest.Wait()
		f := r.frames(t)
		if at := time.UnixMilli(f[0].At); !at.Equal(recorded) || f[0].Replay == nil || f[0].Replay.Events != 601 {
			t.Fatalf("it begins at %v, %+v", at, f[0].Replay)
		}
		time.Sleep(29 * time.Second)
		if now := tileOf(t, p, "bank"); now.State != "watched" || now.Rate != 1 {
			t.Errorf("before the outage: %+v", now)
		}
		time.Sleep(2 * time.Second)
		now := tileOf(t, p, "bank")
		want := note{Tone: toneTrouble, Text: "20 failures in a row", Since: recorded.Add(5 * time.Minute).UnixMilli(),
			Until: recorded.Add(6 * time.Minute).UnixMilli(), Head: "open", Then: "next probe at the latest", Help: runbook + "gabionbreakeropen"}
		if now.State != "open" || now.Notes[0] != want {
			t.Errorf("in the outage: %s %+v, want %+v", now.State, now.Notes, want)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		all := r.frames(t)
		if last := all[len(all)-1]; last.Replay.Playing || last.At != last.Replay.Last || !last.Full {
			t.Errorf("it has not ended: %+v", last.Replay)
		}
	})
}

func TestReplayGoesAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Replay(Config{}, 0, recording)
		defer p.Close()
		at := func(s int) string {
			return fmt.Sprintf(`{"at":%d,"playing":false}`, recorded.Add(time.Duration(s)*time.Second).UnixMilli())
		}
		for _, c := range []struct {
			second int
			state  string
		}{{301, "open"}, {100, "watched"}, {599, "open"}, {0, "watched"}, {100_000, "open"}, {-5, ""}} {
			if code := command(p, at(c.second)); code != 204 {
				t.Fatalf("%d", code)
			}
			if c.state == "" {
				if n := len(*p.watched.tiles.Load()); n != 0 {
					t.Errorf("%d tiles before the beginning", n)
				}
				continue
			}
			if r := tileOf(t, p, "bank"); r.State != c.state {
				t.Errorf("at second %d it is %s, want %s", c.second, r.State, c.state)
			}
		}
		command(p, at(10))
		ask(p, "GET", "/api/v1/state")
		time.Sleep(time.Second)
		if now := p.now(); now != 11*time.Second {
			t.Errorf("it stands at %v, want 11 s", now)
		}
		command(p, `{"playing":true,"speed":5}`)
		ask(p, "GET", "/api/v1/state")
		time.Sleep(time.Second)
		ask(p, "GET", "/api/v1/state")
		if now := p.now(); now != 16*time.Second {
			t.Errorf("it is at %v, want 16 s", now)
		}
		for body, want := range map[string]int{`x`: 400, `{"speed":-1}`: 204, `{"speed":1e9}`: 204} {
			if code := command(p, body); code != want || p.player.speed != 5 {
				t.Errorf("%s: %d, speed %v", body, code, p.player.speed)
			}
		}
	})
}

func TestReplayOfNothing(t *testing.T) {
	p := Replay(Config{}, 1, func() iter.Seq2[time.Time, gabion.Event] { return func(func(time.Time, gabion.Event) bool) {} })
	defer p.Close()
	if w := ask(p, "GET", "/api/v1/state"); w.Code != 200 {
		t.Error(w.Code)
	}
	if w := ask(p, "POST", "/api/v1/replay"); w.Code != 403 {
		t.Errorf("without Origin: %d", w.Code)
	}
	living := New(Config{})
	defer living.Close()
	if code := command(living, `{}`); code != 404 {
		t.Errorf("a living page plays nothing: %d", code)
	}
}

// What a program asks for is where the first viewer is.
func TestReplayBeginsWhereItsProgramSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Replay(Config{}, 1, recording)
		defer p.Close()
		for _, c := range [][2]time.Time{
			{recorded.Add(4 * time.Minute), recorded.Add(4 * time.Minute)},
			{recorded.Add(-time.Hour), recorded.Add(-replayLead)},
			{recorded.Add(time.Hour), recorded.Add(599*time.Second + replayLead)},
		} {
			p.Seek(c[0])
			if at := p.origin.Add(p.now()); !at.Equal(c[1]) {
				t.Errorf("asked for %v, it is at %v, want %v", c[0], at, c[1])
			}
		}
		living := New(Config{})
		defer living.Close()
		living.Seek(recorded)
	})
}
