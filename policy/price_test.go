package policy

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/terms"
)

func TestPricesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{
		"3 usd/1M input": "", "0.01 usd/1 requests": "", "0 eur/1K cached": "", "2.5 usd/1.5M output": "2.5 usd/1500K output", "3 usd/1000000 input": "3 usd/1M input",
		"3 usd / 1M  input": "3 usd/1M input", "1 usd/1k tokens": "1 usd/1K tokens", "0.000003 usd/1 input": "",
	} {
		var p Price
		if err := p.UnmarshalText([]byte(text)); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		want = cmp.Or(want, text)
		again := Price{}
		if err := again.UnmarshalText([]byte(p.String())); p.String() != want || err != nil || again != p {
			t.Errorf("%q is written as %q and read again as %+v, %v", text, p, again, err)
		}
	}
	for text, problem := range map[string]string{
		"": "is no price", "3": "is no price", "3/1M": "is no price", "3 usd": "is no price", "usd/1M input": "is no price", "3 usd/input": "is no price", "x usd/1M input": "has no amount of money",
		"-3 usd/1M input": "has no amount", "NaN usd/1M input": "has no amount", "1e3 usd/1M input": "has no amount", "3.1.4 usd/1M input": "has no amount", "3 usd/0 input": "has a number of units",
		"3 usd/x input": "has no number of units", "3 USD/1M input": "names no money", "3 $/1M input": "names no money", "3 usd/1M Input": "names no unit", "3 usd/1M input tokens": "names no unit",
		"3 usd/1M usd": "sells usd for itself", "9999999999999 usd/1M input": "has an amount", "3 usd/1M " + strings.Repeat("a", 300): "is no price",
	} {
		p := Price{Amount: 7}
		err := p.UnmarshalText([]byte(text))
		var wrong *terms.TextError
		if !errors.As(err, &wrong) || !strings.HasPrefix(wrong.Problem, problem) || p.Amount != 7 {
			t.Errorf("%q: %v, want one that %s", text, err, problem)
		}
	}
}

func TestPricesThatCanNotStand(t *testing.T) {
	in, out := Price{3, "usd", 1e6, "input"}, Price{15, "usd", 1e6, "output"}
	for want, prices := range map[string][]Price{
		"":                        {in, out, {3, "eur", 1e6, "input"}},
		"names no money":          {{}},
		"an amount of money that": {{math.NaN(), "usd", 1, "input"}},
		"a number of units that":  {{1, "usd", math.Inf(1), "input"}},
		"is a second price":       {in, in},
		"are more prices than":    slices.Repeat([]Price{in}, maxPrices+1),
	} {
		err := Policy{Prices: prices}.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", prices, err, want)
		}
	}
}

func TestWhatWasUsedCosts(t *testing.T) {
	prices := []Price{{3, "usd", 1e6, "input"}, {15, "usd", 1e6, "output"}, {0.01, "usd", 1, "requests"}, {2, "eur", 1e6, "input"}, {1, "eur", 1e6, "cached"}}
	used := []Spend{{"requests", 1, 1}, {"input", 200000, 1}, {"cached", 100000, 1}, {"output", 1000, 1}, {"audio", math.NaN(), 1}, {"video", -1, 1}}
	var got []string
	for _, s := range Cost(prices, used) {
		got = append(got, s.Unit)
		want := map[string]float64{"requests": 1, "input": 200000, "cached": 100000, "output": 1000, "usd": 0.6 + 0.3 + 0.015 + 0.01, "eur": 0.4 + 0.1}[s.Unit]
		if math.Abs(s.Amount-want) > 1e-9 || s.Answers != 1 {
			t.Errorf("%+v, want %v", s, want)
		}
	}
	if want := "cached eur input output requests usd"; strings.Join(got, " ") != want {
		t.Errorf("units %v, want %s", got, want)
	}
}

func FuzzPrice(f *testing.F) {
	for _, s := range []string{"3 usd/1M input", "0.01 usd/1 requests", "2.5 eur/1.5M output", "a b/c d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var p, again Price
		if p.UnmarshalText([]byte(text)) != nil {
			return
		}
		if p.problem() != "" {
			t.Fatalf("%q is read as %+v, which %s", text, p, p.problem())
		}
		if err := again.UnmarshalText([]byte(p.String())); err != nil && len(p.String()) < 100 || err == nil && math.Abs(again.Per-p.Per) > p.Per*1e-12 {
			t.Fatalf("%q is written as %q, and read as %+v: %v", text, p, again, err)
		}
	})
}
