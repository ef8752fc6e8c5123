// A program whose calls Prometheus sees.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/policy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func main() {
	registry, err := gabion.NewRegistry(map[string]policy.Policy{"payments": {}})
	if err != nil {
		log.Fatal(err)
	}
	// These two lines attach the metrics.
	metrics := gabionprom.New(gabionprom.Config{Registry: registry})
	prometheus.MustRegister(metrics)

	http.Handle("/metrics", promhttp.Handler())
	server := &http.Server{Addr: "localhost:2112", ReadHeaderTimeout: time.Second}
	log.Fatal(server.ListenAndServe())
}
