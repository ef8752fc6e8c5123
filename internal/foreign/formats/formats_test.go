package formats

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// samples are files of real shape, by their paths.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{"sc.json": []byte(`{"methodConfig": [{"name": [{"service": "a"}], "timeout": "1s"}]}`)}
	for _, folder := range []string{"../library/testdata", "../mesh/testdata"} {
		paths, err := filepath.Glob(folder + "/*")
		if err != nil || len(paths) == 0 {
			t.Fatal(err, folder)
		}
		for _, path := range paths {
			if text, err := os.ReadFile(path); err == nil && filepath.Ext(path) != ".golden" {
				all[path] = text
			}
		}
	}
	return all
}

func TestFormatsAreGuessed(t *testing.T) {
	for path, text := range samples(t) {
		f, err := Guess(path, text)
		if err != nil && !strings.Contains(err.Error(), "may be ") {
			t.Errorf("%s: %v", path, err)
		}
		if name := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), "lines-"); err == nil && strings.HasPrefix(filepath.Base(path), "lines-") && f.Name != name {
			t.Errorf("%s: %s", path, f.Name)
		}
	}
	if f, err := Guess("a.yml", []byte("spring:\n  cloud.gateway:\n    default-filters: [{name: Retry, args: {retries: 1}}]\n")); err != nil || f.Name != "resilience4j" {
		t.Errorf("a gateway's file without resilience4j is taken for %q: %v", f.Name, err)
	}
	for _, text := range []string{"", "a", "{}", "version: 1\ndependencies: {}\n", "[default]\nregion = x", "<xml/>", "kind: Pod", "server: {port: 80}"} {
		if f, err := Guess("a.txt", []byte(text)); err == nil || !strings.Contains(err.Error(), "grpc-service-config, istio") {
			t.Errorf("%q: %s, %v", text, f.Name, err)
		}
	}
}

func TestNamesAndAliasesFindFormats(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range All() {
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			if seen[name] {
				t.Errorf("%s names two formats", name)
			}
			seen[name] = true
			if g, err := Find(name); err != nil || g.Name != f.Name {
				t.Errorf("%s: %s, %v", name, g.Name, err)
			}
		}
		if f.Title == "" || !strings.HasPrefix(f.Source, "https://") || f.Like == nil || f.Read == nil {
			t.Errorf("%s lacks something: %+v", f.Name, f)
		}
	}
	if _, err := Find("isto"); err == nil || !strings.Contains(err.Error(), "did you mean istio?") {
		t.Error(err)
	}
}

// Every sample is written, with all that it has, and read again by gabion.
func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	for path, text := range samples(t) {
		for _, f := range All() {
			r := Read(f, Source{path, text})
			if g, err := Guess(path, text); err != nil && !strings.Contains(err.Error(), f.Name) || err == nil && g.Name != f.Name {
				continue // another format's
			}
			for _, exact := range []bool{false, true} {
				file, err := config.Parse("gabion.yaml", []byte(r.Write(r.Routes, exact)))
				if err != nil {
					t.Errorf("%s as %s, exact %v: %v", path, f.Name, exact, err)
					continue
				}
				for i := range r.Routes {
					want := r.Routes[i].Policy
					if exact {
						want = r.Routes[i].Plays
					}
					if got := file.Policies[r.Routes[i].Dependency]; !same(got, want) {
						t.Errorf("%s: %s, exact %v:\n%+v\n%+v", path, r.Routes[i].Dependency, exact, got, want)
					}
				}
			}
		}
	}
}

// same compares policies; empty lists are none.
func same(a, b policy.Policy) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }

// Policies of all kinds are written, and read again as they were.
func TestEveryFieldIsWritten(t *testing.T) {
	seen := map[string]bool{}
	seeds := uint64(4000)
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		p := drawn(rand.New(rand.NewPCG(seed, 1)))
		if p.Validate() != nil {
			continue
		}
		roundTrip(t, seen, p)
	}
	for _, p := range together {
		roundTrip(t, seen, p)
	}
	fields(reflect.TypeFor[policy.Policy](), "", func(path string) {
		if !testing.Short() && !seen[path] && !strings.HasPrefix(path, ".Fleet.") {
			t.Errorf("%s was never written", path)
		}
	})
}

// together are fields that mean nothing by themselves.
var together = []policy.Policy{
	{Timeout: policy.Timeout{Percentile: 0.99, AttemptMin: 20 * time.Millisecond}},
	{Retry: policy.Retry{Budget: policy.Budget{Shape: policy.BudgetTokens, Ratio: 0.2, Capacity: 50}}},
	{Hedge: policy.Hedge{Max: 1, Delay: time.Second}},
	{Breaker: policy.Breaker{InFlight: true, SlowCall: time.Second, SlowRate: 0.7, OpenGrowth: 3, OpenMax: time.Minute, CloseAfter: 3, ReopenAfter: 2}},
	{Bulkhead: policy.Bulkhead{Limit: policy.Learned, Min: 5, Max: 50}},
	{Endpoints: policy.Endpoints{List: []policy.Endpoint{{Name: "a"}, {Name: "b"}}}},
}

func roundTrip(t *testing.T, seen map[string]bool, p policy.Policy) {
	t.Helper()
	text := foreign.Write("a", []foreign.Route{{Dependency: "a", Title: "a", Line: 1, Policy: p}}, false, func(int) string { return "a:1" })
	f, err := config.Parse("gabion.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got := f.Policies["a"]; !same(got, p) {
		t.Fatalf("%+v\nwas\n%+v\n%s", got, p, text)
	}
	mark(seen, reflect.ValueOf(p), "")
}

func fields(t reflect.Type, path string, do func(string)) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Type.Kind() == reflect.Struct {
			fields(f.Type, path+"."+f.Name, do)
		} else {
			do(path + "." + f.Name)
		}
	}
}

func mark(seen map[string]bool, v reflect.Value, path string) {
	for i := range v.NumField() {
		at := path + "." + v.Type().Field(i).Name
		if f := v.Field(i); f.Kind() == reflect.Struct {
			mark(seen, f, at)
		} else if !f.IsZero() {
			seen[at] = true
		}
	}
}

// drawn is a policy with a few fields set.
func drawn(r *rand.Rand) policy.Policy {
	var p policy.Policy
	for range 1 + r.IntN(3) {
		draw(r, reflect.ValueOf(&p).Elem())
	}
	return p
}

func draw(r *rand.Rand, v reflect.Value) {
	if off := v.FieldByName("Off"); off.IsValid() && off.Bool() {
		return
	}
	i := r.IntN(v.NumField())
	f := v.Field(i)
	switch {
	case f.Kind() == reflect.Struct:
		draw(r, f)
	case v.Type().Field(i).Name == "Off":
		v.SetZero()
		f.SetBool(true)
	case f.Type() == reflect.TypeFor[time.Duration]():
		f.SetInt(int64(time.Duration(1+r.IntN(2000)) * time.Millisecond))
	case f.Type() == reflect.TypeFor[[]int]():
		f.Set(reflect.ValueOf([]int{404 + r.IntN(20)}))
	case f.Type() == reflect.TypeFor[[]policy.GRPCCode]():
		f.Set(reflect.ValueOf([]policy.GRPCCode{grpccode.Internal}))
	case f.Type() == reflect.TypeFor[[]policy.Quota]():
		f.Set(reflect.ValueOf([]policy.Quota{{Unit: policy.Requests, Amount: float64(1 + r.IntN(100)), Span: time.Minute}}))
	case f.Type() == reflect.TypeFor[[]policy.Price]():
		f.Set(reflect.ValueOf([]policy.Price{{Amount: 3, Money: "usd", Per: 1e6, Unit: "input"}}))
	case f.Type() == reflect.TypeFor[[]policy.Endpoint]():
		return
	case f.Type() == reflect.TypeFor[backoff.Kind]():
		f.SetUint(uint64(r.IntN(6)))
	case f.CanInt():
		f.SetInt(int64(r.IntN(9)) - 1)
	case f.CanUint():
		f.SetUint(uint64(r.IntN(3)))
	case f.CanFloat():
		f.SetFloat([]float64{0.25, 0.5, 1, 2, 7}[r.IntN(5)])
	case f.Kind() == reflect.Bool:
		f.SetBool(true)
	}
}

// Aliases that expand to more than there may be, and wrong encodings: a mistake with a line.
func TestWrongEncodingsAndAliases(t *testing.T) {
	if testing.Short() {
		t.Skip("long: aliases that expand to a million values, for each format")
	}
	aliases := bytes.NewBufferString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(aliases, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for name, text := range map[string][]byte{"Latin-1": []byte("a: \xe9"), "aliases": aliases.Bytes(), "10 MiB": bytes.Repeat([]byte("- *a # alias\n"), 10<<20/13)} {
		if _, err := Guess("a.yaml", text); err == nil || !strings.Contains(err.Error(), "a.yaml:") {
			t.Errorf("%s is guessed: %v", name, err)
		}
		for _, f := range All() {
			r := Read(f, Source{"a.yaml", text})
			placed(t, r)
			if len(r.Wrong) == 0 && !f.Plain {
				t.Errorf("%s: %s finds nothing wrong", name, f.Name)
			}
		}
	}
}

// placed checks that all that is said has a line of a file, and that policies are some.
func placed(t testing.TB, r *Reading) {
	t.Helper()
	for _, w := range r.Wrong {
		if w.Line < 1 || w.Reason == "" {
			t.Fatalf("%s: %+v", r.Format, w)
		}
	}
	for _, m := range r.Remarks {
		if m.Line < 1 {
			t.Fatalf("%s: %+v", r.Format, m)
		}
	}
	for i := range r.Routes {
		if err := errors.Join(r.Routes[i].Policy.Validate(), r.Routes[i].Plays.Validate()); err != nil {
			t.Fatalf("%s: %s: %v", r.Format, r.Routes[i].Title, err)
		}
	}
}

// Several files are one, and each line has its own file.
func TestSeveralFilesAreReadTogether(t *testing.T) {
	a := Source{"a.yml", []byte("resilience4j.retry.instances:\r\n  a: {maxAttempts: 2}\r\n")}
	b := Source{"b.yml", []byte("# one\nresilience4j.retry.instances:\n  b: {maxAttempts: 4, maxTries: 2}")}
	r, err := Open("", a, b)
	if err != nil || len(r.Routes) != 2 || r.At(r.Routes[1].From["retry.attempts"]) != "b.yml:3" {
		t.Fatalf("%v %+v", err, r)
	}
	if last := r.Remarks[len(r.Remarks)-1]; r.At(last.Line) != "b.yml:3" {
		t.Errorf("%+v", last)
	}
	b.Text = []byte("a: [")
	if r = Read(All()[1], a, b); len(r.Wrong) == 0 || r.Wrong[0].File != "b.yml" {
		t.Errorf("%+v", r.Wrong)
	}
}

func FuzzFormats(f *testing.F) {
	for _, text := range samples(f) {
		f.Add(text)
	}
	for _, c := range slices.Concat(ofMeshes, ofLibraries) {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = Guess("a", text)
		for _, format := range All() {
			r := Read(format, Source{"a", text})
			placed(t, r)
			for _, exact := range []bool{false, true} {
				if _, err := config.Parse("gabion.yaml", []byte(r.Write(r.Routes, exact))); err != nil && len(r.Wrong) == 0 {
					t.Errorf("%s: %v", format.Name, err)
				}
			}
		}
	})
}

// BenchmarkThousandRoutes reads a file with 1,000 routes of each format, writes their policies and reads those.
func BenchmarkThousandRoutes(b *testing.B) {
	for name, of := range map[string]struct{ head, each string }{
		"resilience4j": {"resilience4j.retry.instances:\n", "  client%d: {maxAttempts: 4, waitDuration: 100ms}\n"},
		"istio": {"", "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: vs%[1]d}\nspec: {hosts: [s%[1]d], http: [{retries: {attempts: 3, retryOn: 5xx}, route: [{destination: {host: s%[1]d}}]}]}\n" +
			"---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: dr%[1]d}\nspec: {host: s%[1]d, trafficPolicy: {connectionPool: {tcp: {maxConnections: 100}}}}\n"},
		"envoy":   {"name: r\nvirtual_hosts:\n- name: h\n  routes:\n", "  - {name: r%[1]d, match: {prefix: /%[1]d}, route: {cluster: c%[1]d, timeout: 3s, retry_policy: {retry_on: 5xx, num_retries: 3}}}\n"},
		"linkerd": {"", "---\napiVersion: v1\nkind: Service\nmetadata: {name: s%d, annotations: {retry.linkerd.io/http: 5xx, timeout.linkerd.io/request: 2s}}\n"},
		"nginx":   {"", "server { location /%d { proxy_pass http://s%[1]d; proxy_next_upstream_tries 2; proxy_read_timeout 3s; } }\n"},
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(of.head)
			for i := range 1000 {
				text = fmt.Appendf(text, of.each, i)
			}
			for b.Loop() {
				r, err := Open("", Source{"a", text})
				if err != nil || len(r.Routes) != 1000 {
					b.Fatal(err, len(r.Routes))
				}
				if _, err := config.Parse("gabion.yaml", []byte(r.Write(r.Routes, false))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
