package idempotency

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// logged is what the tests want to know of a line.
type logged struct {
	Msg     string
	Count   int
	Keys    []string `json:"key_hashes"`
	Problem string
	Error   string `json:"last_error"`
}

// loggedBy returns what is logged while a program does something, and 20 s after.
func loggedBy(t *testing.T, level slog.Level, do func(Observer)) (all []logged) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		do(LogTo(slog.New(slog.NewJSONHandler(&text, &slog.HandlerOptions{Level: level}))))
		time.Sleep(2 * logEvery)
		synctest.Wait()
		for line := range strings.Lines(text.String()) {
			var l logged
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
	})
	return all
}

// An outage of a store that lasted 16 s was 395 lines.
func TestAnOutageOfAStoreIsAFewLinesThatCountAll(t *testing.T) {
	down := errors.New("store: connection refused")
	const requests = 200
	all := loggedBy(t, slog.LevelInfo, func(o Observer) {
		for i := range requests {
			id := IDOf("s", string(rune('a'+i)))
			o.Observe(context.Background(), Event{Kind: eventBegan, ID: id, Err: down})
			o.Observe(context.Background(), Event{Kind: eventRefused, ID: id, Problem: problemStoreUnavailable, Err: down})
			time.Sleep(80 * time.Millisecond)
		}
	})
	of := map[string]int{}
	for _, l := range all {
		of[strings.TrimPrefix(strings.TrimPrefix(l.Msg, "idempotency: "), "more of ")] += max(l.Count, 1)
		if l.Count > 0 && (len(l.Keys) != logKeys || l.Error != down.Error()) {
			t.Errorf("a sum says %+v", l)
		}
	}
	if len(all) > 6 || of["begin"] != requests || of["refused"] != requests {
		t.Errorf("%d lines, of %v", len(all), of)
	}
}

func TestWhatIsLoggedByItself(t *testing.T) {
	for fact, c := range map[string]struct {
		event Event
		apart time.Duration
		level slog.Level
		lines int // of five events
	}{
		"troubles that are far apart":       {Event{Kind: eventUnknown}, 11 * time.Second, slog.LevelInfo, 5},
		"troubles at once are two":          {Event{Kind: eventUnknown}, 0, slog.LevelInfo, 2},
		"what weakens the store":            {Event{Kind: eventStoreUnsafe, Err: errors.New("volatile")}, 0, slog.LevelInfo, 5},
		"a sweep that fails":                {Event{Kind: eventSweepFailed, Err: errors.New("down")}, 0, slog.LevelInfo, 5},
		"what is for debugging":             {Event{Kind: eventReplayed}, 0, slog.LevelDebug, 5},
		"what is for debugging, and is off": {Event{Kind: eventReplayed}, 0, slog.LevelInfo, 0},
		"troubles, and warnings are off":    {Event{Kind: eventUnknown}, 0, slog.LevelError, 0},
	} {
		all := loggedBy(t, c.level, func(o Observer) {
			for range 5 {
				o.Observe(context.Background(), c.event)
				time.Sleep(c.apart)
			}
		})
		if len(all) != c.lines {
			t.Errorf("%s: %d lines, want %d: %+v", fact, len(all), c.lines, all)
		}
	}
}
