package policy

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
)

func TestEndpointsReadThemselves(t *testing.T) {
	for text, want := range map[string]Endpoint{
		"eu":                                {"eu", ""},
		"eu=https://eu.example.com/v1":      {"eu", "https://eu.example.com/v1"},
		"https://eu.example.com:8443/v1":    {"eu.example.com:8443", "https://eu.example.com:8443/v1"},
		"http://[2001:db8::1]:80":           {"[2001:db8::1]:80", "http://[2001:db8::1]:80"},
		"10.0.0.1:443":                      {"10.0.0.1:443", ""},
		"odd=https://eu.example.com/a=b/c/": {"odd", "https://eu.example.com/a=b/c/"},
	} {
		var got Endpoint
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v, writes %s", text, got, err, got)
		}
	}
	for _, text := range []string{
		"", " ", "a b", "=https://eu.example.com", "eu=", "eu=eu.example.com", "ftp://eu.example.com", "https://", "https://:0x/%zz",
		"https://me:secret@eu.example.com", "https://eu.example.com?a=b", "https://eu.example.com#x", "https://eu.example.com?", "https://eu.example.com//v1", "https://eu.example.com/v1/../v2", "https://eu.example.com/%2e/v1", strings.Repeat("x", 129), "a\x00b",
	} {
		got := Endpoint{"before", ""}
		if err := got.UnmarshalText([]byte(text)); err == nil || got.Name != "before" {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	const secret = "https://me:secret@eu.example.com/v1"
	if err := errors.Join(new(Endpoint).UnmarshalText([]byte(secret)), Policy{Endpoints: Endpoints{List: []Endpoint{{"eu", secret}}}}.Validate()); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "@eu.example.com") {
		t.Errorf("a password in a URL: %v", err)
	}
}

func FuzzEndpoint(f *testing.F) {
	f.Add("eu=https://eu.example.com/v1")
	f.Add("https://a=b")
	f.Fuzz(func(t *testing.T, text string) {
		var one, again Endpoint
		if one.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(one.String())); err != nil || again != one {
			t.Errorf("%q: %+v is written as %s and read as %+v, %v", text, one, one, again, err)
		}
		if err := (Policy{Endpoints: Endpoints{List: []Endpoint{one}}}).Validate(); err != nil {
			t.Errorf("%q is read, and then refused: %v", text, err)
		}
	})
}

func TestEndpointsThatCannotStand(t *testing.T) {
	many := make([]Endpoint, terms.MaxEndpoints+1)
	for _, c := range []struct {
		fact string
		e    Endpoints
		path string
		says string
	}{
		{"equal names", Endpoints{List: []Endpoint{{"a", ""}, {"a", ""}}}, "endpoints.list", `"a" is there twice`},
		{"equal URLs", Endpoints{List: []Endpoint{{"a", "https://x.example/v1"}, {"b", "https://X.example.:443/v1/"}}}, "endpoints.list", "is there twice"},
		{"no URL", Endpoints{List: []Endpoint{{"a", "x.example"}}}, "endpoints.list", "is no URL"},
		{"no name", Endpoints{List: []Endpoint{{"", "https://x.example"}}}, "endpoints.list", "is no name"},
		{"too many", Endpoints{List: many}, "endpoints.list", "65 endpoints are too many"},
		{"no such mode", Endpoints{Mode: 7}, "endpoints.mode", "is not known"},
		{"a share that is no number", Endpoints{Standing: Ratio(math.NaN())}, "endpoints.standing", "is not a number"},
		{"a negative share", Endpoints{Ejected: -2}, "endpoints.ejected", "is negative"},
		{"more than all", Endpoints{Ejected: 1.5}, "endpoints.ejected", "is too large"},
		{"a negative time", Endpoints{SlowStart: -time.Second}, "endpoints.slow_start", "is negative"},
		{"a time without a unit", Endpoints{SlowStart: 10}, "endpoints.slow_start", "is too short"},
	} {
		found, _ := Policy{Endpoints: c.e}.Validate().(Mistakes)
		if len(found) != 1 || found[0].Path != c.path || !strings.Contains(found[0].Error(), c.says) || found[0].Proposal == "" {
			t.Errorf("%s: %v", c.fact, found)
		}
	}
	p := Policy{Endpoints: Endpoints{List: []Endpoint{{"a", ""}}}, Breaker: Breaker{Per: PerCall}}
	if found, _ := p.Validate().(Mistakes); !slices.ContainsFunc(found, func(f Mistake) bool { return f.Path == "breaker.per" && f.With == "endpoints.list" }) {
		t.Errorf("a breaker of the whole call: %v", found)
	}
}
