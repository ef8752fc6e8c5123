package policy

import (
	"encoding"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
)

func TestRatioText(t *testing.T) {
	for text, want := range map[string]Ratio{
		"50%": 0.5, "0.1%": 0.001, "7%": 0.07, "100%": 1, "1000%": 10, "99.9%": 0.999, "33.3%": 0.333, "off": Off,
		"0.0000001%": 1e-9, "12345%": 123.45,
	} {
		var r Ratio
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%s reads as %v, %v, want %v", text, float64(r), err, float64(want))
		}
		if got := want.String(); got != text {
			t.Errorf("%v is written %s, want %s", float64(want), got, text)
		}
	}
}

func TestPerSecondText(t *testing.T) {
	for text, want := range map[string]PerSecond{
		"10/s": 10, "0.5/s": 0.5, "1/m": 1.0 / 60, "1/h": 1.0 / 3600, "1000000/s": 1e6, "0.25/s": 0.25, "off": Off, "7/m": 7.0 / 60,
	} {
		var r PerSecond
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%s reads as %v, %v, want %v", text, float64(r), err, float64(want))
		}
		if got := want.String(); got != text {
			t.Errorf("%v is written %s, want %s", float64(want), got, text)
		}
	}
	var r PerSecond
	if err := r.UnmarshalText([]byte("600/m")); err != nil || r != 10 {
		t.Errorf("600/m reads as %v, %v", float64(r), err)
	}
}

func TestDurationText(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"250ms": 250 * time.Millisecond, "10s": 10 * time.Second, "1m30s": 90 * time.Second, "1m": time.Minute,
		"1h": time.Hour, "1h0m5s": time.Hour + 5*time.Second, "1h5m": 65 * time.Minute, "off": Off, "1ns": 1, "100m": 0,
	} {
		d, err := ParseDuration(text)
		if want == 0 {
			want = 100 * time.Minute
			text = "1h40m"
		}
		if err != nil || d != want {
			t.Errorf("%s reads as %v, %v", text, d, err)
		}
		if got := FormatDuration(want); got != text {
			t.Errorf("%v is written %s, want %s", want, got, text)
		}
	}
}

// Bare numbers are refused, with a proposal (C95).
func TestTextIsRefused(t *testing.T) {
	ratio := func(s string) error { return new(Ratio).UnmarshalText([]byte(s)) }
	rate := func(s string) error { return new(PerSecond).UnmarshalText([]byte(s)) }
	duration := func(s string) error { _, err := ParseDuration(s); return err }
	trust := func(s string) error { return new(Trust).UnmarshalText([]byte(s)) }
	for _, c := range []struct {
		parse      func(string) error
		text, want string
	}{
		{ratio, "0.5", `"0.5" has no unit: write 50%`},
		{ratio, "50", `"50" has no unit: write 50%`},
		{ratio, "0.001", `"0.001" has no unit: write 0.1%`},
		{ratio, "0%", `"0%" would mean the default: leave the key out, or write off`},
		{ratio, "-5%", `"-5%" is not a percentage: write one such as 50%`},
		{ratio, "0x1p4%", `"0x1p4%" is not a percentage: write one such as 50%`},
		{ratio, "1e3%", `"1e3%" is not a percentage: write one such as 50%`},
		{ratio, "NaN%", `"NaN%" is not a percentage: write one such as 50%`},
		{ratio, "", `"" is not a percentage: write one such as 50%`},
		{rate, "10", `"10" has no unit: write 10/s`},
		{rate, "10/d", `"10/d" has no unit: write 10/s`},
		{rate, "0/s", `"0/s" would mean the default: leave the key out, or write off`},
		{rate, "-1/s", `"-1/s" is not a rate: write one such as 10/s`},
		{duration, "250", `"250" has no unit: write 250ms or 250s`},
		{duration, "0", `"0" could mean none or at once: leave the key out for the default, or write off`},
		{duration, "0s", `"0s" could mean none or at once: leave the key out for the default, or write off`},
		{duration, "-1ns", `"-1ns" is negative: leave the key out for the default, or write off`},
		{duration, "-0.5ns", `"-0.5ns" is negative: leave the key out for the default, or write off`},
		{duration, "10 s", `"10 s" is not a duration: write one such as 250ms, 10s or 1m30s`},
		{duration, "10000000h", `"10000000h" is too large: write at most 8760h`},
		{duration, "2562047h60m", `"2562047h60m" is too large: write at most 8760h`},
		{duration, "-10000000h", `"-10000000h" is negative: leave the key out for the default, or write off`},
		{duration, "10000000 h", `"10000000 h" is not a duration: write one such as 250ms, 10s or 1m30s`},
		{duration, "1d", `"1d" is not a duration: write one such as 250ms, 10s or 1m30s`},
		{trust, "us", `"us" is not known: use one of external, internal`},
		{trust, "Internal", `"Internal" is not known: use one of external, internal`},
	} {
		err := c.parse(c.text)
		var as *terms.TextError
		if !errors.As(err, &as) || err.Error() != c.want {
			t.Errorf("%q: got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestWordsRoundTrip(t *testing.T) {
	type text interface {
		encoding.TextMarshaler
		String() string
	}
	check := func(v text, into encoding.TextUnmarshaler, known bool) {
		b, err := v.MarshalText()
		if (err == nil) != known {
			t.Errorf("%T %v: %v", v, v, err)
		}
		if known && (into.UnmarshalText(b) != nil || string(b) != v.String()) {
			t.Errorf("%T %v is written %s and not read again", v, v, b)
		}
	}
	for i := range uint8(8) {
		check(Trust(i), new(Trust), i < 2)
		check(KeyMode(i), new(KeyMode), i < 3)
		check(BudgetShape(i), new(BudgetShape), i < 6)
		check(Per(i), new(Per), i < 2)
	}
	k := KeyRequired
	if k.UnmarshalText([]byte("x")) == nil || k != KeyRequired {
		t.Error("an error changed the value")
	}
}

func FuzzRatio(f *testing.F) {
	for _, s := range []string{"50%", "0.1%", "off", "50", "1e9%", "00.10%", ".5%", "99999999999999999999%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var r, again Ratio
		if r.UnmarshalText([]byte(s)) != nil {
			return
		}
		if r != Off && !(r > 0) || math.IsInf(float64(r), 0) {
			t.Fatalf("%q reads as %v", s, float64(r))
		}
		if text := r.String(); len(text) <= maxNumberText && (again.UnmarshalText([]byte(text)) != nil || again != r) {
			t.Fatalf("%q reads as %v, is written %s, reads as %v", s, float64(r), text, float64(again))
		}
	})
}

func FuzzPerSecond(f *testing.F) {
	for _, s := range []string{"10/s", "600/m", "0.5/s", "off", "10", "1/h", "1/", "/s", "3/m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var r, again PerSecond
		if r.UnmarshalText([]byte(s)) != nil {
			return
		}
		if r != Off && !(r > 0) || math.IsInf(float64(r), 0) {
			t.Fatalf("%q reads as %v", s, float64(r))
		}
		if text := r.String(); len(text) <= maxNumberText && (again.UnmarshalText([]byte(text)) != nil || again != r) {
			t.Fatalf("%q reads as %v, is written %s, reads as %v", s, float64(r), text, float64(again))
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"250ms", "1m30s", "off", "0", "-1ns", "1h0m0s", "0.5ns", "10", "2540400h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if d != Off && d <= 0 {
			t.Fatalf("%q reads as %v", s, d)
		}
		if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d {
			t.Fatalf("%q reads as %v, is written %s, reads as %v, %v", s, d, FormatDuration(d), again, err)
		}
	})
}
