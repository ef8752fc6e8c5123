package main

import (
	"testing"

	"github.com/gabion-go/gabion/config"
)

func TestTheFileHasNoMistakes(t *testing.T) {
	file, err := config.Load("gabion.yaml")
	if err != nil || len(file.Names()) != 1 || file.Names()[0] != "catalogue" {
		t.Errorf("%+v, %v", file, err)
	}
}
