package policy

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// sensible are values that a user may write into a field of that type.
func sensible(v reflect.Value) (values []reflect.Value) {
	add := func(x any) { values = append(values, reflect.ValueOf(x).Convert(v.Type())) }
	switch v.Interface().(type) {
	case time.Duration:
		for _, d := range []time.Duration{
			time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second,
			3 * time.Second, 5 * time.Second, 6 * time.Second, 15 * time.Second, 20 * time.Second, time.Minute, 10 * time.Minute, time.Hour, Off,
		} {
			add(d)
		}
		return values
	}
	switch v.Kind() {
	case reflect.Bool:
		add(true)
	case reflect.Uint8:
		for n := range 6 {
			add(n)
		}
	case reflect.Int:
		for _, n := range []int{1, 2, 3, 5, 10, 30, 63, 100, 1000, Off} {
			add(n)
		}
	case reflect.Float64:
		for _, x := range []float64{0.01, 0.1, 0.5, 0.95, 1, 2, 10, 1000, Off} {
			add(x)
		}
	}
	return values
}

// fields calls f for every plain field under v with the path of its names.
func fields(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	for i := range v.NumField() {
		name := path + "." + v.Type().Field(i).Name
		if v.Field(i).Kind() == reflect.Struct {
			fields(v.Field(i), name, f)
		} else {
			f(name, v.Field(i))
		}
	}
}

// A value may be wrong by itself. But who writes one field must not be told that it
// contradicts another that they did not write: the default has to follow.
func TestNoDefaultContradictsTheOneFieldThatIsWritten(t *testing.T) {
	bases := map[string]Policy{
		"zero": {}, "internal": {Trust: Internal}, "per call": {Breaker: Breaker{Per: PerCall}},
		"tokens": {Retry: Retry{Budget: Budget{Shape: BudgetTokens}}}, "window of calls": {Breaker: Breaker{WindowCalls: 100}},
		"grpc": {Retry: Retry{Budget: Budget{Shape: BudgetGRPC}}}, "share": {Retry: Retry{Budget: Budget{Shape: BudgetShare}}},
		"quota": {Retry: Retry{Budget: Budget{Shape: BudgetQuota}}},
	}
	// Two written fields that can't stand together.
	clash := map[string]bool{
		"internal.Timeout.HopMargin": true, "per call.Breaker.ProbeTimeout": true,
		"tokens.Retry.Budget.Capacity": true, "window of calls.Breaker.MinCalls": true, "window of calls.Breaker.Failures": true,
	}
	tried := 0
	for base, p := range bases {
		v := reflect.ValueOf(&p).Elem()
		fields(v, base, func(path string, field reflect.Value) {
			before := reflect.ValueOf(field.Interface())
			for _, x := range sensible(field) {
				field.Set(x)
				tried++
				findings, _ := errors.AsType[Mistakes](p.Validate())
				for _, f := range findings {
					margin := f.Path == "timeout.margin" && p.Timeout.Margin != 0 && p.Timeout.Margin >= 15*time.Second
					if f.With != "" && !f.Unused && !clash[path] && !margin {
						t.Errorf("%s = %v: %v", path, x, f)
					}
				}
				if len(findings) == 0 {
					if err := p.Resolved().Validate(); err != nil {
						t.Errorf("%s = %v resolves to what is refused: %v", path, x, err)
					}
				}
			}
			field.Set(before)
		})
	}
	if tried < 2000 {
		t.Errorf("only %d policies were tried", tried)
	}
}
