// Command first is the first file of README.md: a program that has its policies from
// a file.
package main

import (
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabionslog"
)

func main() {
	file, err := config.Load("gabion.yaml")
	if err != nil {
		log.Fatal(err) // every mistake, with its line and what to write instead
	}
	events := gabion.WithObserver(&gabionslog.Observer{}) // breakers that open, calls that fail: to slog.Default
	deps, err := gabion.NewRegistry(file.Policies, events)
	if err != nil {
		log.Fatal(err)
	}
	catalogue, err := deps.Get("catalogue")
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: catalogue}}

	resp, err := client.Get("http://127.0.0.1:8080/items/7")
	if err != nil {
		log.Fatal(long(err))
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
}

// long says what happened and what to do. http.Client wraps every error in one of its
// own, which prints no long form.
func long(err error) string {
	if e, ok := errors.AsType[*gabion.Error](err); ok {
		return fmt.Sprintf("%+v", e)
	}
	return err.Error()
}
