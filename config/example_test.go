package config_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
)

func ExampleParse() {
	file, err := config.Parse("gabion.yaml", []byte(`
version: 1
dependencies:
  payments:
    preset: payment
    timeout: {call: 20s}
`))
	fmt.Println(err)
	fmt.Println(file.Policies["payments"].Timeout.Call)
	// Output:
	// <nil>
	// 20s
}

// All mistakes are reported at once, each where it is.
func ExampleParse_mistakes() {
	_, err := config.Parse("gabion.yaml", []byte(`version: 1
dependencies:
  payments:
    timeout: {call: 250}
    retry: {atempts: 3}
`))
	fmt.Println(err)
	// Output:
	// gabion.yaml:4:21: payments: timeout.call: "250" has no unit
	//   |     timeout: {call: 250}
	//   |                     ^ write 250ms or 250s
	// gabion.yaml:5:13: payments: unknown key "atempts" in retry
	//   |     retry: {atempts: 3}
	//   |             ^ did you mean attempts?
}

func ExampleFile_Explain() {
	file, _ := config.Parse("gabion.yaml", []byte(`version: 1
defaults:
  trust: internal
dependencies:
  payments:
    preset: payment
    timeout: {call: 20s}
`))
	for _, s := range file.Explain("payments")[:6] {
		fmt.Println(s.Path, s.Value, "from", s.Source)
	}
	// Output:
	// trust internal from gabion.yaml:3 (defaults)
	// key required from preset payment
	// safe false from default
	// timeout.call 20s from gabion.yaml:7
	// timeout.attempt 5s from preset payment
	// timeout.percentile off from default
}

// The time of an attempt is taken from what is measured, between two bounds.
func ExampleParse_measuredTimeout() {
	file, err := config.Parse("gabion.yaml", []byte(`version: 1
defaults:
  timeout: {attempt: 2s}
dependencies:
  search:
    timeout: {attempt: p99.9, attempt_min: 100ms}
`))
	fmt.Println(err)
	t := file.Policies["search"].Timeout
	fmt.Println(t.Percentile, "between", t.AttemptMin, "and", t.Attempt)
	// Output:
	// <nil>
	// 99.9% between 100ms and 2s
}

// A program that puts each new version of its file into force. In place of the channel's own
// signal it has signal.Notify(hup, syscall.SIGHUP).
func ExampleWatch() {
	dir, _ := os.MkdirTemp("", "gabion")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "gabion.yaml")
	write := func(call string) {
		os.WriteFile(path, []byte("version: 1\ndependencies:\n  payments:\n    timeout: {call: "+call+"}\n"), 0o600)
	}
	write("2s")

	file, err := config.Load(path)
	if err != nil {
		log.Fatal(err)
	}
	deps, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		log.Fatal(err)
	}
	hup, looked := make(chan os.Signal), make(chan bool)
	go config.Watch(context.Background(), file, config.Watching{
		Apply:  func(f *config.File) error { defer close(looked); return deps.Reload(f.Policies) },
		Failed: func(err error) { log.Print("the file before stays in force: ", err) },
		Now:    hup,
	})

	write("3s")
	hup <- os.Interrupt
	<-looked
	payments, _ := deps.Get("payments")
	fmt.Println(payments.Policy().Timeout.Call)
	// Output: 3s
}
