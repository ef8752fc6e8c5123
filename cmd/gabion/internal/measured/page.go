package measured

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// living is what a page answers under api/v1/measured.
type living struct {
	Version      int     `json:"version"`
	Observed     float64 `json:"observed_ms"`
	Dependencies []struct {
		Name      string             `json:"name"`
		Calls     float64            `json:"calls"`
		Succeeded float64            `json:"succeeded"`
		Attempts  float64            `json:"attempts"`
		Retries   float64            `json:"retries"`
		Failures  map[string]float64 `json:"failures"`
		State     string             `json:"state"`
		Cut       float64            `json:"cut"`
		Opened    float64            `json:"opened"`
		Took      []int64            `json:"took"`
		Slots     *struct {
			InUse float64 `json:"in_use"`
			Limit float64 `json:"limit"`
		} `json:"slots"`
		Settings []struct{ Path, Value, Source string } `json:"settings"`
	} `json:"dependencies"`
}

// readPage measures what a living page tells.
func readPage(in io.Reader) (map[string]*vitals, error) {
	var l living
	if err := json.NewDecoder(in).Decode(&l); err != nil {
		return nil, fmt.Errorf("it is no answer of a page of gabion: %w", err)
	}
	if l.Version != 1 {
		return nil, fmt.Errorf("its version is %d: a newer gabion command reads it", l.Version)
	}
	all := map[string]*vitals{}
	for _, d := range l.Dependencies {
		v := newVitals(d.Name)
		v.span = millis(l.Observed).Round(time.Second)
		v.calls, v.succeeded, v.attempts, v.retries = d.Calls, d.Succeeded, d.Attempts, d.Retries
		v.notClosed = d.State == policy.StateOpen.String() || d.State == policy.StateHalfOpen.String()
		for reason, n := range d.Failures {
			v.ended[reason] = n
		}
		v.cut, v.opens = d.Cut, d.Opened
		for i, n := range d.Took[:min(len(d.Took), len(v.took))] {
			v.took.Put(i, n)
		}
		if d.Slots != nil {
			v.limit = d.Slots.Limit
		}
		for _, s := range d.Settings {
			if s.Source != "default" {
				v.settings = append(v.settings, setting(d.Name, s.Path, s.Value))
			}
		}
		v.hasPolicy = len(d.Settings) > 0
		all[d.Name] = v
	}
	return all, nil
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
