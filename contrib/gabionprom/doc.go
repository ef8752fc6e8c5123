// Package gabionprom exposes what gabion does as Prometheus metrics.
//
//	metrics := gabionprom.New(gabionprom.Config{Registry: registry})
//	prometheus.MustRegister(metrics)
//
// A [Metrics] is an observer and a collector. It counts the events of calls, and asks for
// states and levels, such as those of breakers, when it is scraped. docs/metrics.md lists
// all metrics, deploy/prometheus has alerts and deploy/grafana a dashboard for them, and
// docs/alerts.md says what to do about each alert.
//
// The names of dependencies, operations, codes and partitions are labels, so all of them
// are bounded, and what is past a bound counts as _other. See [Config].
package gabionprom

//go:generate go run ./internal/deploy ../..
