package gabionproxy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// admin is what operators see of a program that Run runs.
type admin struct {
	run  *run
	page *dashboard.Page
	mux  *http.ServeMux
}

func newAdmin(r *run) *admin {
	a := &admin{run: r, mux: http.NewServeMux()}
	a.page = dashboard.New(dashboard.Config{
		Title: "gabion proxy", Registry: r.registry, AllowOverrides: r.file.Load().Proxy.Admin.Overrides,
		Settings: func(name string) []policy.Setting { return r.file.Load().Explain(name) },
	})
	a.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	a.mux.HandleFunc("GET /readyz", a.ready)
	a.mux.Handle("GET /metrics", r.options.metrics(r.proxy))
	a.mux.Handle("GET /config", a.local(http.HandlerFunc(a.config)))
	a.mux.Handle("POST /reload", a.local(http.HandlerFunc(a.reload)))
	a.mux.Handle("POST /drain", a.local(http.HandlerFunc(a.drain)))
	a.mux.Handle("/page/", a.local(a.page))
	a.mux.Handle("GET /{$}", http.RedirectHandler("/page/", http.StatusSeeOther))
	return a
}

func (a *admin) ready(w http.ResponseWriter, _ *http.Request) {
	if !a.run.proxy.Ready() {
		http.Error(w, "draining", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// local keeps sites away that a browser of this machine has open: one that has made its name point here, and one
// that sends requests across.
func (a *admin) local(next http.Handler) http.Handler {
	guarded := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own, _, _ := net.SplitHostPort(a.run.file.Load().Proxy.Admin.Address)
		if host := hostOnly(r.Host); host != "localhost" && host != own && net.ParseIP(host) == nil {
			http.Error(w, "use the address of this listener, and no other name", http.StatusForbidden)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

func (a *admin) reload(w http.ResponseWriter, r *http.Request) {
	dry := r.URL.Query().Has("dry-run")
	if err := a.run.reload(r.Context(), dry); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	fmt.Fprintln(w, map[bool]string{true: "the file can be put into force", false: "the file is in force"}[dry])
}

func (a *admin) drain(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "draining")
	_ = http.NewResponseController(w).Flush() // the drain may be over, and this listener gone, before the handler is
	a.run.stop()
}

// effective is what is in force.
type effective struct {
	File         string                 `json:"file"`
	Hash         string                 `json:"hash"` // of all below
	Proxy        any                    `json:"proxy"`
	Dependencies map[string][]effectKey `json:"dependencies"`
}

type effectKey struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func effectiveOf(f *config.File) effective {
	e := effective{File: f.Name, Proxy: plain(reflect.ValueOf(f.Proxy)), Dependencies: map[string][]effectKey{}}
	for _, name := range f.Names() {
		for _, s := range f.Explain(name) {
			e.Dependencies[name] = append(e.Dependencies[name], effectKey{s.Path, s.Value, s.Source})
		}
	}
	text, _ := json.Marshal(e)
	sum := sha256.Sum256(text)
	e.Hash = hex.EncodeToString(sum[:8])
	return e
}

func (a *admin) config(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	to := json.NewEncoder(w)
	to.SetIndent("", "  ")
	_ = to.Encode(effectiveOf(a.run.file.Load()))
}

// plain is a part of a configuration in the words of the file, without what it does not say and without passwords.
func plain(v reflect.Value) any {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return policy.FormatDuration(time.Duration(v.Int()))
	case v.Kind() == reflect.Int && v.Int() == policy.Learned:
		return "learned"
	case v.Kind() == reflect.String:
		return shown(v.String())
	case v.Kind() == reflect.Slice:
		all := make([]any, v.Len())
		for i := range all {
			all[i] = plain(v.Index(i))
		}
		return all
	case v.Kind() != reflect.Struct:
		return v.Interface()
	}
	all := map[string]any{}
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() {
			all[yamlstrict.Snake(v.Type().Field(i).Name)] = plain(f)
		}
	}
	return all
}

// metrics is what the admin listener answers at /metrics: the program's, or else the proxy's numbers alone.
func (o *Options) metrics(p *Proxy) http.Handler {
	if o.Metrics != nil {
		return o.Metrics(p)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		var b strings.Builder
		for name, n := range p.Stats().Series() {
			fmt.Fprintf(&b, "# TYPE %s %s\n%s %d\n", name, cmp.Or(map[bool]string{true: "counter"}[strings.HasSuffix(name, "_total")], "gauge"), name, n)
		}
		_, _ = w.Write([]byte(b.String()))
	})
}
