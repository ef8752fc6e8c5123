package idempotency_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/idempotency"
)

// A gateway sent an order on and no answer came. Its 502 must not become the order's answer.
func ExampleOutcomeUnknown() {
	gateway := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		idempotency.OutcomeUnknown(r.Context())
		w.WriteHeader(http.StatusBadGateway)
	})
	h, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(0, 0), gateway, idempotency.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", "order-7")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.Contains(w.Body.String(), "outcome-unknown"))
	}
	// Output:
	// 409 true
	// 409 true
}

func TestOutcomeUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		guarantee idempotency.Guarantee
		status    int
		noEffect  bool
		runs      int
		last      int
	}{
		"hold, failure":                {idempotency.GuaranteeHold, 502, false, 1, 409},
		"hold, success":                {idempotency.GuaranteeHold, 201, false, 1, 201},
		"hold, rejection":              {idempotency.GuaranteeHold, 404, false, 1, 409},
		"hold, no effect after all":    {idempotency.GuaranteeHold, 502, true, 2, 502},
		"reexecute: the next one runs": {idempotency.GuaranteeReexecute, 502, false, 2, 502},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				idempotency.OutcomeUnknown(r.Context())
				if c.noEffect {
					idempotency.NoEffect(r.Context())
				}
				w.WriteHeader(c.status)
			})
			h, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(0, 0), work,
				idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Guarantee: c.guarantee}})
			if err != nil {
				t.Fatal(err)
			}
			last := 0
			for range 2 {
				r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
				r.Header.Set("Idempotency-Key", "k")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				last = w.Code
			}
			if runs != c.runs || last != c.last {
				t.Errorf("%d runs, the last answer is %d; want %d and %d", runs, last, c.runs, c.last)
			}
		})
	}
}
