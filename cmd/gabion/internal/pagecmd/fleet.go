package pagecmd

import (
	"bytes"
	"context"
	_ "embed"
	"html/template"
	"net/http"
	"time"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fleetview"
	"github.com/gabion-go/gabion/cmd/gabion/internal/operator"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/fleetlook"
)

//go:embed fleet.html
var fleetPage string

// refresh is how often a browser asks again. Members report every third of a lease.
const refresh = 2 * time.Second

var fleetTemplate = template.Must(template.New("fleet").Funcs(template.FuncMap{
	"ago":     func(now, at time.Time) string { return operator.Span(now.Sub(at)) },
	"left":    func(now, at time.Time) string { return operator.Span(at.Sub(now)) },
	"count":   cli.Count[int],
	"number":  fleetview.Number,
	"percent": func(part, of int64) float64 { return 100 * float64(part) / float64(max(of, 1)) },
	"sent":    func(d fleetview.Dependency) int64 { return d.Calls - d.Unsent },
}).Parse(fleetPage))

// seen is what the page shows.
type seen struct {
	Fleet   string
	Asked   int // pages of processes that have no store; zero with one
	Refresh int // seconds
	View    *fleetlook.View
	Sum     *fleetview.Sum
	Problem string // why nothing else is shown
}

// watch serves a page of all members of a fleet.
func (r *request) watch(ctx context.Context) int {
	if err := r.fleet.Check(); err != nil {
		return r.wrongly(err.Error())
	}
	store, closeStore, err := r.fleet.Open(ctx)
	if err != nil {
		return r.failed(cli.ExitFailure, err)
	}
	defer closeStore()
	if err := r.serve(ctx, fleetHandler(inStore(store, r.fleet.Fleet))); err != nil {
		return r.failed(cli.ExitFailure, err)
	}
	return cli.ExitOK
}

// inStore looks into a store.
func inStore(store fleet.Store, name string) func(context.Context) seen {
	return func(ctx context.Context) seen {
		v, err := fleetlook.Look(ctx, store, name)
		if err != nil {
			return seen{Fleet: name, Problem: err.Error()}
		}
		return seen{Fleet: name, View: v, Sum: fleetview.Of(v)}
	}
}

// fleetHandler looks for each request, and serves what there is then. It says so if there is nothing.
func fleetHandler(look func(context.Context) seen) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/" {
			http.NotFound(w, q)
			return
		}
		s, status := look(q.Context()), http.StatusOK
		if s.Refresh = int(refresh / time.Second); s.Problem != "" {
			status = http.StatusBadGateway
		}
		var body bytes.Buffer
		if err := fleetTemplate.Execute(&body, s); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		_, _ = body.WriteTo(w) // a browser that has left
	})
}
