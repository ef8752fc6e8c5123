package fleet

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

type jsonRaw = json.RawMessage

func TestARecordThatMakesNoSenseIsRefused(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	fmt.Fprint(z, `{"v":1,"x":"`)
	for range 20 {
		z.Write(bytes.Repeat([]byte{'x'}, MaxRecord))
	}
	z.Close()
	pool := func(s string) string { return `{"v":1,"n":1,"at":1,"len":1000,` + s + `}` }
	for _, c := range []struct{ fact, report, pool, says string }{
		{fact: "no JSON", report: "x", pool: "x", says: "invalid character"},
		{fact: "nothing", says: "end of JSON"},
		{fact: "a newer format", report: `{"v":2,"id":7}`, pool: `{"v":2,"n":"x"}`, says: "newer"},
		{fact: "no format", report: `{}`, pool: `{}`, says: "no format"},
		{fact: "too many bytes", report: strings.Repeat(" ", MaxRecord+1), pool: strings.Repeat(" ", MaxRecord+1), says: "1 MB"},
		{fact: "a bomb", report: bomb.String(), pool: bomb.String(), says: "1 MB"},
		{fact: "half of a compressed record", report: bomb.String()[:100], pool: bomb.String()[:100], says: "EOF"},
		{fact: "no ID", report: `{"v":1}`, says: "1 to 200"},
		{fact: "a long ID", report: `{"v":1,"id":"` + long + `"}`, says: "201"},
		{fact: "too many resources", report: `{"v":1,"id":"a","d":[{}` + strings.Repeat(`,{}`, MaxResources) + `]}`, says: "1001"},
		{fact: "an infinite number", report: `{"v":1,"id":"a","d":[{"r":"x","t":1e999}]}`, pool: pool(`"res":[{"r":"x","t":1e999}]`), says: "1e999"},
		{fact: "an impossible time", pool: `{"v":1,"at":-1,"len":1000}`, says: "time"},
		{fact: "a lease without length", pool: `{"v":1,"at":1}`, says: "length"},
		{fact: "too many resources in the pool", pool: pool(`"res":[{}` + strings.Repeat(`,{}`, MaxResources) + `]`), says: "bounds"},
		{fact: "a resource without a name", pool: pool(`"res":[{"t":1}]`), says: "resource 0"},
		{fact: "a negative share", pool: pool(`"res":[{"r":"x"}],"pods":[{"id":"a","s":[-1]}]`), says: "process 0"},
		{fact: "a share of nothing", pool: pool(`"pods":[{"id":"a","s":[1]}]`), says: "process 0"},
		{fact: "an earlier share of nothing", pool: pool(`"res":[{"r":"x"}],"pods":[{"id":"a","w":[{"r":1}]}]`), says: "process 0"},
		{fact: "a process twice", pool: pool(`"pods":[{"id":"a"},{"id":"a"}]`), says: "order"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if c.report != "" || c.pool == "" {
				if _, err := ParseReport([]byte(c.report)); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("report: %v, want %s", err, c.says)
				}
			}
			if c.pool != "" || c.report == "" {
				if _, err := ParsePool([]byte(c.pool)); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("pool: %v, want %s", err, c.says)
				}
			}
		})
	}
	if _, err := ParsePool([]byte(`{"v":2}`)); !errors.Is(err, ErrNewer) {
		t.Errorf("%v is not ErrNewer", err)
	}
}

func TestFieldsOfTheNextReleaseDoNoHarm(t *testing.T) {
	r, err := ParseReport([]byte(`{"v":1,"id":"a","new":{"x":[1]},"d":[{"r":"x","t":5,"zz":"?"}]}`))
	if err != nil || len(r.Demands) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	p, err := ParsePool([]byte(`{"v":1,"n":3,"at":5,"len":7,"new":1,"res":[{"r":"x","t":5,"zz":0}],"pods":[{"id":"a","s":[1],"zz":0}]}`))
	if err != nil || p.Pod("a").Share(0) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// FuzzRecords feeds what the store may have to everything that reads it.
func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":"a","n":1,"a":1,"d":[{"r":"x","t":5,"w":3,"h":2}]}`), []byte(`{"v":1,"n":1,"at":5,"len":1000,"res":[{"r":"x","t":5}],"pods":[{"id":"a","u":900,"s":[1],"w":[{"n":1,"a":2,"u":5}]}],"past":[1]}`), int64(700))
	f.Add([]byte(`{"v":1,"id":"b","d":[{"r":"x","t":1e-300,"i":true}]}`), []byte(`{"v":1,"n":18446744073709551615,"at":9007199254740992,"len":1}`), int64(-5))
	f.Add([]byte(`{"v":1,"id":"a","n":1}`), []byte(`{"v":1,"n":1,"at":0,"len":1,"pods":[{"id":"a","n":1,"u":-9007199254740992}]}`), int64(latest))
	f.Fuzz(func(t *testing.T, report, record []byte, now int64) {
		r, err := ParseReport(report)
		if err != nil {
			return
		}
		p, err := ParsePool(record)
		if err != nil {
			p = nil
		}
		at := time.UnixMicro(now)
		next := Divide(p, []Report{*r}, at, lease, 0)
		b, err := next.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParsePool(b); err != nil {
			t.Fatalf("what was divided cannot be read: %v\n%s", err, b)
		}
		for i, res := range next.Resources {
			sum := 0.0
			for k := range next.Pods {
				sum += next.Pods[k].Share(i)
			}
			if sum > res.Total*(1+1e-9) {
				t.Fatalf("%v of %v is given", sum, res)
			}
		}
		h := New(r.ID, lease)
		h.Report(0, r.Demands)
		h.Heard(0, at, next)
		h.Fit(r.Demands)
		h.Report(1, r.Demands)
	})
}

// fleetOf makes a fleet in which n processes share some resources, and a pool that most of them go by.
func fleetOf(n, resources int, wild bool) ([]Report, *Pool) {
	rng := rand.New(rand.NewPCG(1, 2))
	reports := make([]Report, n)
	var p *Pool
	for round := range 3 {
		for i := range reports {
			r := Report{Format: format, ID: fmt.Sprintf("payments-7d9f8b6c5-%05x-%d", rng.Uint32N(1<<20), i), Count: uint64(round + 1)}
			if round > 0 {
				r.ID = reports[i].ID
				r.Ack = p.Version
			}
			for k := range resources {
				want := float64((i+k)%4) * 0.4
				if wild {
					want = float64(rng.IntN(4)) * 0.617
				}
				name := fmt.Sprintf("dependency-%d rate", k)
				d := Demand{Resource: name, Total: 1000, Want: want, Room: 0.31}
				if p != nil {
					d.Holds = p.holds(r.ID, name)
				}
				r.Demands = append(r.Demands, d)
			}
			reports[i] = r
		}
		p = Divide(p, reports, noon.Add(time.Duration(round)*2500*time.Millisecond), 10*time.Second, 0)
	}
	return reports, p
}

// In a calm fleet wants stay, in a wild one each changes at each renewal.
func BenchmarkDivideThousandTimesTwenty(b *testing.B) {
	for _, wild := range []bool{false, true} {
		name := map[bool]string{false: "calm/", true: "wild/"}[wild]
		reports, p := fleetOf(1000, 20, wild)
		record, err := p.Encode()
		if err != nil {
			b.Fatal(err)
		}
		var raw [][]byte
		sum := 0
		for i := range reports {
			r, err := reports[i].Encode()
			if err != nil {
				b.Fatal(err)
			}
			raw, sum = append(raw, r), sum+len(r)
		}
		b.Run(name+"parse the pool", func(b *testing.B) {
			for b.Loop() {
				if _, err := ParsePool(record); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(record)), "B/pool")
		})
		b.Run(name+"parse the reports", func(b *testing.B) {
			for b.Loop() {
				for _, r := range raw {
					if _, err := ParseReport(r); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(sum/len(raw)), "B/report")
		})
		b.Run(name+"divide and encode", func(b *testing.B) {
			for b.Loop() {
				if _, err := Divide(p, reports, noon.Add(8*time.Second), 10*time.Second, 0).Encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
