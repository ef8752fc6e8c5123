package tune

import (
	"reflect"
	"testing"

	"github.com/gabion-go/gabion/config"
)

// A limit that a vendor sets is a fact about the dependency, and so are its quotas, prices and
// endpoints: no scenario knows them, so nothing that is proposed may remove them.
func TestStartsKeepTheLimitsOfTheDependency(t *testing.T) {
	f, err := config.Parse("gabion.yaml", []byte(`version: 1
dependencies:
  db:
    safe: true
    timeout: {call: 3s, attempt: 60ms}
    rate_limit: {rate: 50/s, burst: 5, quotas: ["500 requests/1m"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	dims, _, err := Space(f, "db", nil)
	if err != nil {
		t.Fatal(err)
	}
	today := f.Policies["db"]
	for _, s := range Starts(f, "db", nil, dims) {
		if !reflect.DeepEqual(s.Policy.Resolved().RateLimit, today.Resolved().RateLimit) {
			t.Errorf("%s: the limit is %+v: %v", s.Name, s.Policy.Resolved().RateLimit, s.Changes)
		}
	}
	if got := Defaults(today).RateLimit; !reflect.DeepEqual(got, today.RateLimit) {
		t.Errorf("the defaults have the limit %+v", got)
	}
}
