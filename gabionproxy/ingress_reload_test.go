package gabionproxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/idempotency"
)

// A request takes the only slot before the reload, and has it still when the next one comes.
func TestAReloadKeepsThoseWhoWereLetIn(t *testing.T) {
	const admits = "admission: {limit: 1, queue: 1"
	for fact, c := range map[string]struct {
		after string // of the ingress, beside the program
		other bool   // another program
		keeps bool
	}{
		"another program":               {admits + "}", true, true},
		"deadlines":                     {admits + "}, deadlines: true", false, true},
		"a route with keys":             {admits + "}, " + orders, false, true},
		"a balancer that is believed":   {admits + "}, trusted: [10.0.0.0/8]", true, true},
		"callers who are believed":      {admits + ", trust_priority: true}", true, true},
		"tenants":                       {admits + ", tenant_header: X-Tenant}", true, false},
		"another limit begins anew":     {"admission: {limit: 2, queue: 1}", true, false},
		"no admission lets everyone in": {"deadlines: true", true, false},
	} {
		t.Run(fact, func(t *testing.T) {
			busy, free := make(chan bool), make(chan bool)
			first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					busy <- true
					<-free
				}
				io.WriteString(w, "first")
			}))
			defer first.Close()
			second := says("second")
			defer second.Close()
			want, to := "first", first.URL
			if c.other {
				want, to = "second", second.URL
			}
			parse := func(to, more string) *config.File {
				file, err := config.Parse("gabion.yaml", []byte("version: 1\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, ingress: {to: \""+to+"\", "+more+"}}\n"))
				if err != nil {
					t.Fatal(err)
				}
				return file
			}
			file := parse(first.URL, admits+"}")
			registry, err := gabion.NewRegistry(file.Policies)
			if err != nil {
				t.Fatal(err)
			}
			store := idempotency.NewMemoryStore(0, 0)
			p, err := gabionproxy.New(file.Proxy, registry, gabionproxy.Options{Store: func(string) (idempotency.Store, error) { return store, nil }})
			if err != nil {
				t.Fatal(err)
			}
			s := httptest.NewServer(p.Handler("127.0.0.1:0"))
			defer s.Close()
			ended := make(chan string)
			go func() {
				_, text := get(t, s.URL+"/slow")
				ended <- text
			}()
			<-busy
			after := parse(to, c.after)
			for _, r := range []struct {
				file *config.File
				dry  bool
				want string
			}{{after, true, "first"}, {file, false, "first"}, {after, false, want}} {
				if err := p.Reload(r.file.Policies, r.file.Proxy, r.dry); err != nil {
					t.Fatal(err)
				}
				if _, text := get(t, s.URL+"/healthz"); text != r.want { // it takes no slot
					t.Errorf("dry: %v; the program behind is the %s one, and not the %s", r.dry, text, r.want)
				}
			}
			next, _ := http.NewRequest(http.MethodGet, s.URL, nil)
			if c.keeps {
				next.Header.Set("X-Request-Deadline-Ms", "50") // it waits no longer for the slot
			}
			if status, text := answer(t, next); (status == http.StatusOK) == c.keeps {
				t.Errorf("while the only slot is taken: %d %s", status, text)
			}
			close(free)
			if text := <-ended; text != "first" {
				t.Errorf("what was being served ends with %q", text)
			}
		})
	}
}
