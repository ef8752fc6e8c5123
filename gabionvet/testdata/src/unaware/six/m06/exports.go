// Package m06 waits for an export to be ready.
//
// Mistake: the wait ends only when the state is "done" or "failed". An export
// that was forgotten is asked for once a second for ever.
package m06

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

var client = &http.Client{Timeout: 5 * time.Second}

func Wait(base, id string) error {
	for {
		state, err := state(base, id)
		if err != nil {
			return err
		}
		switch state {
		case "done":
			return nil
		case "failed":
			return errors.New("export failed")
		}
		time.Sleep(time.Second)
	}
}

func state(base, id string) (string, error) {
	resp, err := client.Get(base + "/exports/" + id)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("export %s: %s", id, resp.Status)
	}
	var export struct {
		State string `json:"state"`
	}
	err = json.NewDecoder(resp.Body).Decode(&export)
	return export.State, err
}
