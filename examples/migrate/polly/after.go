// Package polly is docs/migrate/polly.md: the client after its migration to gabion, with its
// policy in a file.
package polly

import (
	_ "embed"
	"net/http"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/examples/migrate/shop"
	"github.com/gabion-go/gabion/gabionhttp"
)

// File has the policy.
//
//go:embed gabion.yaml
var File []byte

// After is the client with gabion. A program that is not an example loads the file when it
// starts, with config.Load, and says what is wrong with it.
func After(base string, wire http.RoundTripper, options ...gabion.Option) shop.Client {
	policies, err := config.Parse("gabion.yaml", File)
	if err != nil {
		panic(err)
	}
	deps, err := gabion.NewRegistry(policies.Policies, options...)
	if err != nil {
		panic(err)
	}
	dependency, err := deps.Get("shop")
	if err != nil {
		panic(err)
	}

	client := &http.Client{Transport: &gabionhttp.Transport{Dependency: dependency, Base: wire}}
	return shop.HTTP{Base: base, Doer: client}
}
