package dashboard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/internal/recording"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// A program mounts the page beside its other handlers for operators.
func ExampleHandler() {
	registry, err := gabion.NewRegistry(map[string]policy.Policy{"payments": {}, "search": {}})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/gabion/", dashboard.Handler(registry))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "/debug/gabion/api/v1/state", nil))
	var state struct {
		Tiles []struct{ Name, State string }
	}
	json.Unmarshal(answer.Body.Bytes(), &state)
	fmt.Println(state.Tiles)
	// Output: [{payments never_called} {search never_called}]
}

// The page says from which line of a file each rule comes.
func ExampleConfig_settings() {
	file, err := config.Parse("gabion.yaml", []byte("version: 1\ndependencies:\n  payments:\n    retry:\n      attempts: 2\n"))
	if err != nil {
		panic(err)
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		panic(err)
	}
	page := dashboard.New(dashboard.Config{
		Registry: registry,
		Settings: file.Explain,
	})
	defer page.Close()
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest("GET", "/api/v1/dependency?name=payments", nil))
	var detail struct{ Rules []policy.Setting }
	json.Unmarshal(answer.Body.Bytes(), &detail)
	for _, r := range detail.Rules {
		if r.Path == "retry.attempts" {
			fmt.Println(r.Path, r.Value, r.Source)
		}
	}
	// Output: retry.attempts 2 gabion.yaml:5
}

// What is no gabion dependency gets a tile, too, when its events are passed in.
func ExamplePage_Observe() {
	page := dashboard.New(dashboard.Config{Title: "comparison"})
	defer page.Close()
	loop := func(call uint64) {
		e := gabion.Event{Dependency: "hand-written loop", Call: call}
		for e.Attempt = 1; e.Attempt <= 3; e.Attempt++ {
			e.Kind = policy.KindAttemptSent
			page.Observe(context.Background(), e)
			// … the request …
			e.Kind, e.Class, e.Code, e.Took = policy.KindAttemptSettled, policy.ClassServer, "503", 20*time.Millisecond
			page.Observe(context.Background(), e)
		}
		e.Kind, e.Attempt, e.Reason = policy.KindReturned, 3, policy.AttemptsExhausted
		page.Observe(context.Background(), e)
	}
	loop(1)
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest("GET", "/api/v1/state", nil))
	var state struct {
		Tiles []struct {
			Name          string
			Amplification float64
		}
	}
	json.Unmarshal(answer.Body.Bytes(), &state)
	fmt.Println(state.Tiles)
	// Output: [{hand-written loop 3}]
}

// A recording is played as if it happened now.
func ExampleReplay() {
	var file bytes.Buffer
	writer := record.NewWriter(&file)
	bank := gabion.New("bank", policy.Policy{}, gabion.WithObserver(writer))
	bank.Run(context.Background(), func(context.Context) error { return nil })

	page := dashboard.Replay(dashboard.Config{Title: "last night"}, 10, func() iter.Seq2[time.Time, gabion.Event] {
		return func(yield func(time.Time, gabion.Event) bool) {
			for e, err := range recording.Entries(bytes.NewReader(file.Bytes())) {
				if err != nil || !yield(e.Time(e.Event.At), e.Event) {
					return
				}
			}
		}
	})
	defer page.Close()
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest("GET", "/api/v1/state", nil))
	var state struct{ Replay struct{ Events int } }
	json.Unmarshal(answer.Body.Bytes(), &state)
	fmt.Println(state.Replay.Events, "events")
	// Output: 3 events
}
