package lab_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gabion-go/gabion/lab"
)

// Two seconds without connections, and what a policy makes of them.
const blip = `version: 1
title: No connections for two seconds
duration: 2m
replications: 8
clients:
  shop: {count: 10, rate: 50/s, calls: [{to: db, network: exp 1ms}]}
services:
  db: {workers: 8, queue: 20, time: exp 20ms}
policies:
  db: {safe: true, retry: {backoff: {base: 1s, cap: 4s}}}
faults:
  - {kind: down, service: db, at: 20s, for: 2s}
assert:
  - amplification(db) <= 3 during faults
  - recovery <= 60s
`

func ExampleParse() {
	s, err := lab.Parse("blip.yaml", []byte(blip))
	if err != nil {
		log.Fatal(err)
	}
	report, err := s.Run(context.Background(), lab.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range report.Assertions() {
		fmt.Println(a.Text, "holds:", a.Verdict)
	}
	// Output:
	// amplification(db) <= 3 during faults holds: yes
	// recovery <= 60s holds: yes
}

// A file with a mistake says where it is.
func ExampleParse_mistake() {
	_, err := lab.Parse("blip.yaml", []byte("version: 1\ntitle: x\nduration: 60\nclients: {}\nservices: {}\n"))
	fmt.Println(err.(lab.Findings)[0])
	// Output:
	// blip.yaml:3:11: duration: "60" has no unit
	//   | duration: 60
	//   |           ^ write 60ms or 60s
}

func ExampleScenario_Run() {
	s, err := lab.Parse("blip.yaml", []byte(blip))
	if err != nil {
		log.Fatal(err)
	}
	report, err := s.Run(context.Background(), lab.Options{Rival: lab.Naive, Replications: 4})
	if err != nil {
		log.Fatal(err)
	}
	ours, _, err := report.Metric(0, "failed", "", "during")
	if err != nil {
		log.Fatal(err)
	}
	naive, _, err := report.Metric(1, "failed", "", "during")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("fewer calls fail than naively:", ours.High < naive.Low)
	// Output:
	// fewer calls fail than naively: true
}
