package behaviour_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

func endpointsNamed(names ...string) (list []policy.Endpoint) {
	for _, name := range names {
		list = append(list, policy.Endpoint{Name: name})
	}
	return list
}

func TestAResolverThatFailsChangesNothing(t *testing.T) {
	for fact, resolve := range map[string]gabion.Resolver{
		"an error":       func(context.Context) ([]policy.Endpoint, error) { return endpointsNamed("x"), errors.New("no") },
		"none":           func(context.Context) ([]policy.Endpoint, error) { return nil, nil },
		"a panic":        func(context.Context) ([]policy.Endpoint, error) { panic("no") },
		"nil":            nil,
		"equal ones":     func(context.Context) ([]policy.Endpoint, error) { return endpointsNamed("x", "x"), nil },
		"too many":       func(context.Context) ([]policy.Endpoint, error) { return make([]policy.Endpoint, 65), nil },
		"one with a URL": func(context.Context) ([]policy.Endpoint, error) { return []policy.Endpoint{{Name: "x", URL: "x"}}, nil },
	} {
		var told []string
		d := gabion.New("payments", ways(policy.EndpointsEqual, "a", "b"), gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
			told = append(told, e.String())
		})))
		err := gabion.ResolveEndpoints(t.Context(), d, resolve)
		if got := d.Policy().Endpoints.List; err == nil || len(got) != 2 || strings.Join(told, ",") != "endpoints_moved kept" {
			t.Errorf("%s: %v, %v, told %v", fact, err, got, told)
		}
	}
}

// What is known of endpoints that stay is kept, and a reload does not bring the policy's own back.
func TestEndpointsThatAreResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ways(policy.EndpointsEqual, "a")
		d := gabion.New("payments", p)
		calls := func(n int) map[string]int {
			var s seen
			for range n {
				_ = d.Run(t.Context(), func(ctx context.Context) error { s.add(ctx); return nil })
			}
			return s.count()
		}
		calls(3)
		var mu sync.Mutex
		list, asked := endpointsNamed("a", "b"), 0
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			gabion.FollowEndpoints(ctx, d, 10*time.Second, func(context.Context) ([]policy.Endpoint, error) {
				mu.Lock()
				defer mu.Unlock()
				if asked++; asked == 2 {
					return nil, errors.New("no")
				}
				return list, nil
			})
		}()
		synctest.Wait()
		if n := calls(1000); n["a"] < 800 || n["b"] < 20 { // which is new
			t.Errorf("at once: %v", n)
		}
		mu.Lock()
		list = endpointsNamed("b", "c")
		mu.Unlock()
		time.Sleep(11 * time.Second)
		if n := calls(100); n["c"] != 0 || n["a"] == 0 {
			t.Errorf("after a failure: %v", n)
		}
		time.Sleep(10 * time.Second)
		if n := calls(100); n["a"] != 0 || n["b"] == 0 {
			t.Errorf("with others: %v", n)
		}
		before := d.Stats().Endpoints[0].Attempts
		p.Retry.Attempts = 2
		if err := d.Reload(p); err != nil {
			t.Fatal(err)
		}
		if st := d.Stats(); len(st.Endpoints) != 2 || st.Endpoints[0].Name != "b" || st.Endpoints[0].Attempts != before || d.Policy().Retry.Attempts != 2 {
			t.Errorf("after a reload: %+v", st.Endpoints)
		}
		stop()
		<-done
		if asked != 3 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestAReloadAddsAndRemovesEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("payments", policy.Policy{})
		where := func() (name string) {
			_ = d.Run(t.Context(), func(ctx context.Context) error { name = gabion.EndpointOf(ctx).Name; return nil })
			return name
		}
		for _, c := range []struct {
			p    policy.Policy
			want string
		}{{policy.Policy{}, ""}, {ways(policy.EndpointsOrdered, "a", "b"), "a"}, {ways(policy.EndpointsOrdered, "b"), "b"}, {policy.Policy{}, ""}} {
			if err := d.Reload(c.p); err != nil {
				t.Fatal(err)
			}
			if got := where(); got != c.want {
				t.Errorf("%v: went to %q", c.p.Endpoints.List, got)
			}
		}
	})
}

func TestAddressesOfAHost(t *testing.T) {
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "localhost"); err != nil {
		testservers.Missing(t, "localhost has no address here: %v", err)
	}
	list, err := gabion.Addresses(nil, "http://localhost:8080/v1")(t.Context())
	if err != nil || len(list) == 0 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, e := range list {
		if host, port, err := net.SplitHostPort(e.Name); err != nil || port != "8080" || net.ParseIP(host) == nil || e.URL != "http://"+e.Name+"/v1" {
			t.Errorf("%+v", e)
		}
	}
	if err := (policy.Policy{Endpoints: policy.Endpoints{List: list}}).Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "payments", "http://", "://x"} {
		if list, err := gabion.Addresses(nil, bad)(t.Context()); err == nil {
			t.Errorf("%q: %v", bad, list)
		}
	}
	d := gabion.New("payments", policy.Policy{}, gabion.WithLogger(slog.New(slog.DiscardHandler)))
	if err := gabion.ResolveEndpoints(t.Context(), d, gabion.Addresses(nil, "http://127.0.0.1:80")); err != nil || d.Policy().Endpoints.List[0].Name != "127.0.0.1:80" {
		t.Errorf("an address: %v, %v", err, d.Policy().Endpoints.List)
	}
}
