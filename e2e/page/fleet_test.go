package page

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionredis/redisfleet"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// The command's page of a fleet shows an override, and that it was lifted, without being loaded anew by hand.
func TestPageOfAFleet(t *testing.T) {
	addr := testservers.Redis(t)
	b := newTab(t)
	program := filepath.Join(t.TempDir(), "gabion")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "../../cmd/gabion"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	store, err := redisfleet.New(client, redisfleet.Options{})
	b.must(err)
	for _, id := range []string{"pod-1", "pod-2", "pod-3"} {
		joinFleet(t, store, id)
	}
	page := exec.CommandContext(t.Context(), program, "page", "--store", "redis://"+addr, "--fleet", "shop")
	out, err := page.StdoutPipe()
	b.must(err)
	b.must(page.Start())
	t.Cleanup(func() { _ = page.Process.Kill(); _ = page.Wait() })
	url, err := bufio.NewReader(out).ReadString('\n')
	b.must(err)
	b.open(strings.TrimSpace(url))
	text := func(of string) string { // there is nothing while the page is loaded anew
		return `document.querySelector("` + of + `")?.innerText ?? ""`
	}
	b.until(text("#dependencies"), "pod-3: 75 % of its calls fail")
	b.until(text("#members"), "pod-2")
	b.until(text("#limits"), "rate")
	o, err := fleet.Steer(t.Context(), store, "shop", fleet.Override{Dependency: "payments", Action: fleet.ForceOpen, For: time.Hour, Who: "ada", Why: "INC-123"})
	b.must(err)
	b.until(text("#overrides"), "INC-123")
	b.must(fleet.Lift(t.Context(), store, "shop", o.ID, "ada", "it is mended"))
	b.until(`document.querySelector("#summary") ? "overrides: " + document.querySelectorAll("#overrides").length : ""`, "overrides: 0")
}

// joinFleet makes a member whose calls fail if it is the third.
func joinFleet(t *testing.T, store fleet.Store, id string) {
	t.Helper()
	r, err := gabion.NewRegistry(map[string]policy.Policy{"payments": {
		Retry: policy.Retry{Attempts: 1}, RateLimit: policy.RateLimit{Rate: 1000, Burst: 100}, Fleet: policy.Fleet{Rate: true}, Breaker: noBreaker,
	}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Get("payments")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		_ = d.Run(t.Context(), func(context.Context) error {
			if id == "pod-3" && n%4 != 0 {
				return errors.New("no")
			}
			return nil
		})
	}
	m, err := fleet.Join(context.WithoutCancel(t.Context()), r, store, fleet.Options{Name: "shop", ID: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
}
