package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/policy"
)

func TestPricesOfAFile(t *testing.T) {
	f := parse(t, "version: 1\ndependencies:\n  a: {preset: llm, prices: [3 usd/1M input, 0.01 usd/1 requests]}\n")
	want := []policy.Price{{Amount: 3, Money: "usd", Per: 1e6, Unit: "input"}, {Amount: 0.01, Money: "usd", Per: 1, Unit: "requests"}}
	if got := f.Policies["a"].Prices; !slices.Equal(got, want) {
		t.Errorf("prices %v", got)
	}
	again := parse(t, (view{f}).YAML(false))
	if got := again.Policies["a"].Prices; !slices.Equal(got, want) {
		t.Errorf("printed and read again %v", got)
	}
	i := slices.IndexFunc(f.Explain("a"), func(s policy.Setting) bool { return s.Path == "prices" })
	if s := f.Explain("a")[i]; !strings.Contains(s.Value, "3 usd/1M input") || s.Source != "gabion.yaml:3" {
		t.Errorf("explained as %+v", s)
	}
	for text, want := range map[string]string{
		"[3 USD/1M input]":                  "names no money",
		"[3 usd/0 input]":                   "has a number of units that can't be meant",
		"[3 usd/1M input, 4 usd/1K input]":  "is a second price of input in usd",
		"[three dollars]":                   "is no price",
		"[{amount: 3, money: usd, per: 1}]": "",
		"3 usd/1M input":                    "",
		"off":                               "",
	} {
		_, err := Parse("gabion.yaml", []byte("version: 1\ndependencies:\n  a: {prices: "+text+"}\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "gabion.yaml:3:") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
