package main

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/examples/migrate/shop"
)

// inVirtualTime puts a question to a new program and a new shop, over pipes. What the
// program leaves behind, a goroutine or a connection, ends with its context, or the bubble
// does not end.
func inVirtualTime(t *testing.T, q shop.Question, program func(string, http.RoundTripper) shop.Client) (says string) {
	synctest.Test(t, func(t *testing.T) {
		network := shop.NewPipes()
		server, closeIt := shop.Open(network)
		wire := &http.Transport{DialContext: network.DialContext, MaxIdleConnsPerHost: 256}
		ctx, cancel := context.WithCancel(t.Context())
		says = q.Ask(ctx, server, program("http://shop.test", wire))
		cancel()
		closeIt()
		wire.CloseIdleConnections()
	})
	return says
}

// unasked stands for the answer of a program that can't be asked.
const unasked = "–"

// askBefore asks the program with the other library. In real time a slow machine can make
// another answer of the one that is expected: then it is asked again.
func (m migration) askBefore(t *testing.T, q shop.Question, want string) (says string) {
	switch {
	case m.before == nil || m.real && q.Long:
		return unasked
	case !m.real:
		return inVirtualTime(t, q, m.before)
	}
	for range 5 {
		var err error
		if says, err = onLoopback(t.Context(), q, m.before); err != nil {
			t.Fatal(err)
		}
		if alike(says, want) {
			break
		}
	}
	return says
}

// askAfter asks the program with gabion.
func (m migration) askAfter(t *testing.T, q shop.Question) string {
	return inVirtualTime(t, q, func(base string, wire http.RoundTripper) shop.Client {
		return m.after(base, wire, gabion.WithSeed(1))
	})
}

func TestTheProgramRuns(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), &out, []string{"gobreaker-backoff"}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"gobreaker-backoff", "charged 2 times", "charged once"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is missing in\n%s", part, &out)
		}
	}
	if err := run(t.Context(), &out, []string{"failsafe"}); err == nil || !strings.Contains(err.Error(), "failsafe-go") {
		t.Errorf("an unknown library: %v", err)
	}
}
