package machine

import (
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
	"reflect"
	"testing"
)

// lists calls f for every slice and map in v.
func lists(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			lists(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice, reflect.Map, reflect.Pointer:
		f(path, v)
	}
}

// A list that the caller changes afterwards must not change what is in force.
func TestRulesShareNothingWithThePolicyTheyWereMadeOf(t *testing.T) {
	p := policy.Policy{Prices: []policy.Price{{Amount: 3, Money: "usd", Per: 1e6, Unit: "input"}}, RateLimit: policy.RateLimit{Quotas: []policy.Quota{{Unit: "tokens", Amount: 1000}}}, HTTP: policy.HTTP{Transient: []int{500}, Permanent: []int{503}},
		GRPC:      policy.GRPC{Transient: []policy.GRPCCode{grpccode.Internal}, Permanent: []policy.GRPCCode{grpccode.Unavailable}},
		Endpoints: policy.Endpoints{List: []policy.Endpoint{{Name: "eu"}}}}
	r, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	lists(reflect.ValueOf(p), "Policy", func(path string, v reflect.Value) {
		seen++
		if v.Kind() != reflect.Slice || v.Len() == 0 {
			t.Fatalf("%s: give it something in this test, and copy it in Clone", path)
		}
	})
	lists(reflect.ValueOf(p), "", func(path string, v reflect.Value) {
		lists(reflect.ValueOf(r.Policy), "", func(other string, w reflect.Value) {
			if path == other && v.Pointer() == w.Pointer() {
				t.Errorf("%s is shared", path)
			}
		})
	})
	if seen == 0 {
		t.Error("no list was found")
	}
}
