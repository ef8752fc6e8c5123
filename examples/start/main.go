// Command start is the program of docs/get-started.md: clients whose policies are in a
// file, with a log, metrics and the live page.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabionslog"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: start URL")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	deps, err := dependencies("gabion.yaml")
	if err != nil {
		log.Fatal(err) // every mistake, with its line and what to write instead
	}
	operators := &http.Server{Addr: "127.0.0.1:6060", Handler: forOperators(deps), ReadHeaderTimeout: 10 * time.Second}
	go func() { log.Println(operators.ListenAndServe()) }()

	client, err := clientOf(deps, "shop")
	if err != nil {
		log.Fatal(err)
	}
	for ctx.Err() == nil {
		if err := ask(ctx, client, os.Args[1]); err != nil {
			log.Println(err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// dependencies are those of a file, with a log of what gabion decides.
func dependencies(name string) (*gabion.Registry, error) {
	file, err := config.Load(name)
	if err != nil {
		return nil, err
	}
	return gabion.NewRegistry(file.Policies, gabion.WithObserver(&gabionslog.Observer{}))
}

// clientOf makes the client of a dependency. Keep it: it holds the connections.
func clientOf(deps *gabion.Registry, name string) (*http.Client, error) {
	dependency, err := deps.Get(name)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &gabionhttp.Transport{Dependency: dependency}}, nil
}

// forOperators has metrics for Prometheus and the live page. Keep it off the network: on
// loopback, or behind a login.
func forOperators(deps *gabion.Registry) http.Handler {
	metrics := gabionprom.New(gabionprom.Config{Registry: deps})
	prometheus.MustRegister(metrics)

	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.Handler())
	mux.Handle("/debug/gabion/", dashboard.Handler(deps))
	return mux
}

func ask(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// order sends an order that must not be carried out twice. The key says which it is; store
// it with the order, and it is the same after a restart.
func order(ctx context.Context, client *http.Client, url, key string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
