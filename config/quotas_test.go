package config

import (
	"strings"
	"testing"
)

// Of several wrong quotas in one list each is named, at its place, with its reason and a proposal.
func TestEachWrongQuotaIsNamed(t *testing.T) {
	for fact, c := range map[string]struct {
		text string
		want []string
	}{
		"that can't be read": {"version: 1\ndependencies:\n  model:\n    rate_limit:\n      quotas:\n        - 500/1m\n        - 100 tokens/1m\n        - 5 usd/24h estimate\n",
			[]string{"gabion.yaml:6:11: ", "gabion.yaml:8:11: "}},
		"by their numbers": {"version: 1\ndependencies:\n  model:\n    rate_limit: {quotas: [0 requests/1m, 100 tokens/1ms, 10 usd estimate 20]}\n",
			[]string{"gabion.yaml:4:27: ", "gabion.yaml:4:42: ", "gabion.yaml:4:58: "}},
		"of one unit": {"version: 1\ndependencies:\n  model:\n    rate_limit:\n      quotas: [500 requests/1m, 400 requests/1m, 9 tokens, 8 tokens, 7 requests/1m]\n",
			[]string{"gabion.yaml:5:33: ", "gabion.yaml:5:60: ", "gabion.yaml:5:70: "}},
		"of both kinds": {"version: 1\ndependencies:\n  model:\n    rate_limit:\n      quotas: [500 requests/1m, 400 requests/1m, 9]\n",
			[]string{"gabion.yaml:5:33: ", "gabion.yaml:5:50: "}},
		"endpoints": {"version: 1\ndependencies:\n  model:\n    endpoints: {list: [a=https://a.example, b=https://a.example/, a, c=ftp://c]}\n",
			[]string{"gabion.yaml:4:45: ", "gabion.yaml:4:67: ", "gabion.yaml:4:70: "}},
		"of the defaults": {"version: 1\ndefaults:\n  rate_limit:\n    quotas: [5 tokens, 4 tokens, 3 tokens]\ndependencies:\n  a: {}\n  b: {}\n",
			[]string{"gabion.yaml:4:24: ", "gabion.yaml:4:34: "}},
	} {
		_, err := Parse("gabion.yaml", []byte(c.text))
		if err == nil {
			t.Errorf("%s: no error", fact)
			continue
		}
		found, _ := err.(Findings)
		if len(found) != len(c.want) {
			t.Errorf("%s: %d findings:\n%v", fact, len(found), err)
			continue
		}
		for i, f := range found {
			if !strings.HasPrefix(f.Error(), c.want[i]) || f.Reason == "" || f.Proposal == "" || f.Snippet == "" {
				t.Errorf("%s: finding %d is not at %s: %+v", fact, i, c.want[i], f)
			}
		}
	}
}
