package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/labtest"
	"github.com/gabion-go/gabion/policy"
)

func TestTheProgramOfThePage(t *testing.T) {
	var orders []string
	shop := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			orders = append(orders, r.Header.Get("Idempotency-Key"))
		}
	}))
	defer shop.Close()
	deps, err := dependencies("gabion.yaml")
	if err != nil {
		t.Fatal(err)
	}
	operators := httptest.NewServer(forOperators(deps))
	defer operators.Close()

	client, err := clientOf(deps, "shop")
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	bank, err := clientOf(deps, "bank")
	if err != nil {
		t.Fatal(err)
	}
	defer bank.CloseIdleConnections()
	if err := errors.Join(ask(t.Context(), client, shop.URL), order(t.Context(), bank, shop.URL, "order-7")); err != nil {
		t.Error(err)
	}
	if len(orders) != 1 || orders[0] != "order-7" {
		t.Errorf("orders %q", orders)
	}
	resp, err := bank.Post(shop.URL, "text/plain", nil) // key: required
	if !errors.Is(err, policy.KeyMissing) {
		t.Errorf("an order without a key: %v, %v", resp, err)
	}
	for path, part := range map[string]string{
		"/metrics":                   `gabion_calls_total{dependency="shop"`,
		"/debug/gabion/":             "<title>",
		"/debug/gabion/api/v1/state": `"shop"`,
	} {
		if text := fetch(t, operators.URL+path); !strings.Contains(text, part) {
			t.Errorf("%s has no %s:\n%s", path, part, text)
		}
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAMistakeIsNamed(t *testing.T) {
	if _, err := dependencies("testdata/mistake.yaml"); err == nil || !strings.Contains(err.Error(), `mistake.yaml:4:21`) || !strings.Contains(err.Error(), "call") {
		t.Errorf("%v", err)
	}
	if _, err := dependencies("none.yaml"); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestTheShopSurvivesAStorm(t *testing.T) {
	storm := labtest.Run(t, labtest.Case{
		Scenario: "testdata/storm.yaml", // or the name of one that comes with gabion, such as error-storm
		Config:   "gabion.yaml",
	})
	storm.Amplification(t, 1.3)
	storm.Recovery(t, 10*time.Second)
}
