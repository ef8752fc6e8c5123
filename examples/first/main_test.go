package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

func TestTheFileHasNoMistakes(t *testing.T) {
	file, err := config.Load("gabion.yaml")
	if err != nil || len(file.Names()) != 1 || file.Names()[0] != "catalogue" {
		t.Errorf("%+v, %v", file, err)
	}
}

// What http.Client returns is a *url.Error, which has no long form.
func TestAFailedRequestSaysWhatToDo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: gabion.New("catalogue", policy.Policy{})}}
	req, err := http.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:8080/items/7", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Do(req)
	if text := long(err); !strings.Contains(text, "what to do:") || !strings.Contains(text, "docs/reasons.md#canceled") {
		t.Errorf("it says %s", text)
	}
	if text := long(errors.New("something else")); text != "something else" {
		t.Errorf("it says %s", text)
	}
}
