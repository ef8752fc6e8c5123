package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
)

const played = `all is well:       200 lamp, 3 left; others bought: shades
tips hang:         200 lamp, 3 left; best sold: bulbs
tips are down:     200 lamp, 3 left; best sold: bulbs
200 exports:       2 at work, 64 wait, 134 refused
an order meanwhile: 200 lamp, 3 left; best sold: bulbs
stock is down:     503 attempts_exhausted
`

func TestWhatTheShopDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		if err := play(t.Context(), &out); err != nil || out.String() != played {
			t.Errorf("%v\n%s", err, &out)
		}
	})
}

// The page shows what the program says, and its file.
func TestThePageIsUpToDate(t *testing.T) {
	page, err := os.ReadFile("../../docs/patterns/degradation.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{played, string(policies)} {
		if !strings.Contains(string(page), part) {
			t.Errorf("the page does not have\n%s", part)
		}
	}
}

// When a dependency can't be reached, the page uses a fallback, which is counted. When it does not
// answer in time the outcome is unknown, so no fallback is counted; the page is the same, after 300
// ms.
func TestASubstituteIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		hangs     bool
		fallbacks int64
		takes     time.Duration
	}{"down": {false, 1, 0}, "hangs": {true, 0, 300 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{gate: make(chan struct{})}
				s, err := open(w.stock, w.tips, gabion.WithSeed(1))
				if err != nil {
					t.Fatal(err)
				}
				w.tipsDown.Store(true)
				w.tipsHang.Store(c.hangs)
				began, answer := time.Now(), httptest.NewRecorder()
				s.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/item", nil))
				if n := s.tips.Stats().Fallbacks; n != c.fallbacks || !strings.Contains(answer.Body.String(), bestSold) || time.Since(began) != c.takes {
					t.Errorf("%d fallbacks, %s after %v", n, answer.Body, time.Since(began))
				}
			})
		})
	}
}
