package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/policy"
)

const twoEndpoints = `version: 1
dependencies:
  pay:
    endpoints:
      mode: ordered
      list: [first=https://api.first.example/v1, https://second.example:8443, third]
      standing: 2%
      shared_keys: true
`

func TestEndpointsOfAFile(t *testing.T) {
	f := parse(t, twoEndpoints)
	want := policy.Endpoints{Mode: policy.EndpointsOrdered, Standing: 0.02, SharedKeys: true, List: []policy.Endpoint{
		{Name: "first", URL: "https://api.first.example/v1"}, {Name: "second.example:8443", URL: "https://second.example:8443"}, {Name: "third"},
	}}
	if got := f.Policies["pay"].Endpoints; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	var shown []string
	for _, s := range f.Explain("pay") {
		if strings.HasPrefix(s.Path, "endpoints.") {
			shown = append(shown, s.Path+" = "+s.Value+" from "+s.Source)
		}
	}
	if got := strings.Join(shown, "\n"); got != `endpoints.list = [first=https://api.first.example/v1, https://second.example:8443, third] from gabion.yaml:6
endpoints.mode = ordered from gabion.yaml:5
endpoints.standing = 2% from gabion.yaml:7
endpoints.ejected = 50% from default
endpoints.slow_start = 2s from default
endpoints.shared_keys = true from gabion.yaml:8` {
		t.Error(got)
	}
	again := parse(t, (view{f}).YAML(false))
	if got := again.Policies["pay"].Resolved().Endpoints; !reflect.DeepEqual(got, f.Policies["pay"].Resolved().Endpoints) {
		t.Errorf("written and read again: %+v", got)
	}
	for _, s := range parse(t, "version: 1\ndependencies: {db: {}}\n").Explain("db") {
		if strings.HasPrefix(s.Path, "endpoints.") {
			t.Errorf("without endpoints: %+v", s)
		}
	}
}

func TestMistakesOfEndpointsHaveTheirPlaces(t *testing.T) {
	for _, c := range []struct{ change, to, at, says string }{
		{"third", "first=https://x.example", "6:79", `"first" is there twice`},
		{"third", "https://API.first.example:443/v1/", "6:79", "is there twice"},
		{"third", "third=x.example", "6:79", "is no URL of http or https"},
		{"third", "https://me:secret@x.example", "6:79", "has a user or a password"},
		{"third", "a b", "6:79", "is no name of an endpoint"},
		{"ordered", "random", "5:13", "use one of equal, ordered"},
		{"2%", "-2%", "7:17", "is not a percentage"},
		{"2%", "0.02", "7:17", "write 2%"},
		{"2%", "60%", "7:17", "is too large"},
		{"2%", ".nan", "7:17", "is not a percentage"},
		{"standing: 2%", "slow_start: 10", "7:19", "has no unit"},
		{"standing: 2%", "ejection: 10%", "7:7", "keys: list, mode"},
	} {
		_, err := Parse("gabion.yaml", []byte(strings.Replace(twoEndpoints, c.change, c.to, 1)), env())
		var found Findings
		if !errors.As(err, &found) || len(found) != 1 || !strings.Contains(found[0].Error(), c.says) || !strings.Contains(found[0].Error(), "gabion.yaml:"+c.at) {
			t.Errorf("%s: want %s at %s, got %v", c.to, c.says, c.at, err)
		}
	}
}
