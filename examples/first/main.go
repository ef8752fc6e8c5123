// Command first is the first file of README.md: a program that has its policies from
// a file.
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionhttp"
)

func main() {
	file, err := config.Load("gabion.yaml")
	if err != nil {
		log.Fatal(err) // every mistake, with its line and what to write instead
	}
	deps, err := gabion.NewRegistry(file.Policies)
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
		log.Fatalf("%+v", err) // what happened, and what to do
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
}
