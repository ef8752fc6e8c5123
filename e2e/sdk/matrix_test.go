package sdk

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/internal/testgolden"
)

// client is what the matrix compares: an SDK and the ways to use it.
type client struct {
	name   string
	reads  bool // its work may be done twice
	worlds int  // that it meets
	open   func(t *testing.T, w *world, how int) (call, func())

	// gives are the cells in which more is lost than alone, as docs/sdks.md says: the
	// most, in points of all calls.
	gives map[cell]float64
}

// cell is a trouble under one of gabion's two arrangements.
type cell struct {
	trouble string
	how     int
}

const (
	outage   = "3 s outage"
	denial   = "3 s of SlowDown"
	tenth    = "10 % errors"
	third    = "30 % errors"
	throttle = "throttled"
)

// troubles are what every client meets. The load takes 8 s, and a throttled service takes three
// quarters of it.
var troubles = []trouble{
	{name: outage, down: func(at time.Duration) bool { return at >= 2*time.Second && at < 5*time.Second }},
	{name: denial, down: func(at time.Duration) bool { return at >= 2*time.Second && at < 5*time.Second }, denies: true},
	{name: tenth, errors: 0.1},
	{name: third, errors: 0.3},
	{name: throttle, rate: 15},
}

// result is what came of loads.
type result struct{ calls, lost, twice, sent int }

func (r *result) add(o result) {
	r.calls += o.calls
	r.lost += o.lost
	r.twice += o.twice
	r.sent += o.sent
}

func (r result) share(n int) float64 { return 100 * float64(n) / float64(r.calls) }

func (r result) String() string {
	s := fmt.Sprintf("%.1f %%, %.2f", r.share(r.lost), float64(r.sent)/float64(r.calls))
	if r.twice > 0 {
		s += fmt.Sprintf(", twice %.1f %%", r.share(r.twice))
	}
	return s
}

// waits is how long the caller of a call waits for it.
const waits = 10 * time.Second

// play makes a load. An open one is 20 calls a second for 8 s. A closed one is 8 callers
// with 20 calls each, and a third of a second between them.
func (c *client) play(t *testing.T, tr trouble, closed bool, how int, seed uint64) (r result) {
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		w := newWorld(tr, seed)
		run, end := c.open(t, w, how)
		var mu sync.Mutex
		once := func(n int) {
			ctx, cancel := context.WithTimeout(numbered(t.Context(), n), waits)
			defer cancel()
			err := run(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			r.calls++
			if err != nil {
				r.lost++
			}
		}
		var wg sync.WaitGroup
		for n := 0; n < 160 && !closed; n++ {
			wg.Go(func() { once(n) })
			time.Sleep(50 * time.Millisecond)
		}
		for caller := 0; caller < 8 && closed; caller++ {
			wg.Go(func() {
				time.Sleep(time.Duration(caller) * 40 * time.Millisecond)
				for i := range 20 {
					once(i*8 + caller)
					time.Sleep(330 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		r.twice, r.sent = w.twice(), w.sent
		end()
	})
	if c.reads {
		r.twice = 0
	}
	return r
}

// row is a client in one arrangement and one kind of load.
type row [5]result

func (c *client) row(t *testing.T, closed bool, how int) (r row) {
	for i, tr := range troubles {
		for seed := range uint64(c.worlds) {
			r[i].add(c.play(t, tr, closed, how, seed))
		}
	}
	return r
}

// arrangementsOf are the rows of the tables, by how a client is used.
var arrangementsOf = []struct {
	how  int
	name string
}{{alone, "alone"}, {paged, "its page"}, {asIs, "zero policy"}}

// TestNoSDKIsWorseOffUnderLoad plays each SDK in each trouble, alone, as its page says and with the zero
// policy. With gabion no more calls may be lost than alone, no more may be done twice, and no
// more may be sent than a tenth above alone and 1.5 attempts for each call more that is answered,
// or than 1.3 for each call.
// Where more is lost, the client says how much, and so does the page.
//
//	go test -run UnderLoad ./e2e/sdk -args -update
func TestNoSDKIsWorseOffUnderLoad(t *testing.T) {
	tables := map[bool]*bytes.Buffer{false: {}, true: {}}
	for _, c := range clients(testing.Short()) {
		t.Run(c.name, func(t *testing.T) {
			for _, closed := range []bool{false, true} {
				c.compare(t, closed, tables[closed])
			}
		})
	}
	if !testing.Short() {
		written(t, tables)
	}
}

// compare plays the three arrangements and writes their rows.
func (c *client) compare(t *testing.T, closed bool, to *bytes.Buffer) {
	var bare row
	for _, a := range arrangementsOf {
		got := c.row(t, closed, a.how)
		fmt.Fprintf(to, "| %s | %s |", c.name, a.name)
		for i, tr := range troubles {
			fmt.Fprintf(to, " %v |", got[i])
			if a.how != alone {
				c.hold(t, fmt.Sprintf("%s, closed %v, %s", tr.name, closed, a.name), bare[i], got[i], c.gives[cell{tr.name, a.how}])
			}
		}
		to.WriteByte('\n')
		t.Logf("closed %-5v %-11s %v", closed, a.name, got)
		if a.how == alone {
			bare = got
		}
	}
}

// hold compares a cell with the SDK alone.
func (c *client) hold(t *testing.T, name string, alone, got result, gives float64) {
	chance := 0.02*float64(got.calls) + 0.05*float64(alone.lost) // the waits are drawn
	if most := float64(alone.lost) + gives/100*float64(got.calls) + chance; float64(got.lost) > most {
		t.Errorf("%s: %d of %d calls are lost, at most %.0f may be; alone %d", name, got.lost, got.calls, most, alone.lost)
	}
	if float64(got.twice) > float64(alone.twice)+0.01*float64(got.calls) {
		t.Errorf("%s: %d calls were done twice, alone %d", name, got.twice, alone.twice)
	}
	most := max(1.1*float64(alone.sent)+1.5*float64(max(0, alone.lost-got.lost)), 1.3*float64(got.calls))
	if float64(got.sent) > most {
		t.Errorf("%s: %d attempts were sent, at most %.0f may be; alone %d", name, got.sent, most, alone.sent)
	}
}

// written puts the tables where the page has them.
func written(t *testing.T, tables map[bool]*bytes.Buffer) {
	const page, begins, ends = "../../docs/sdks.md", "<!-- written by: go test -run UnderLoad ./e2e/sdk -args -update -->\n", "<!-- end -->\n"
	var head strings.Builder
	for _, tr := range troubles {
		head.WriteString(" " + tr.name + " |")
	}
	var text string
	for _, closed := range []bool{false, true} {
		title := map[bool]string{false: "Open loop", true: "Closed loop"}[closed]
		text += "| " + title + " | |" + head.String() + "\n|---|---|" + strings.Repeat("--:|", len(troubles)) + "\n" + tables[closed].String() + "\n"
	}
	testgolden.Measured(t, page, begins, ends, text)
}

// clients are those of the matrix. Those without HTTP are cheap.
func clients(short bool) []*client {
	all := []*client{cacheGet(), cacheIncr(), rpc(), query()}
	for _, c := range all {
		c.worlds = 6
	}
	for _, s := range []*subject{openAI(), claude(), payments(), s3Get(), byModule(s3Get(), nil), table(), byModule(table(), nil), search(), restyGet(0), restyGet(2), restyPost()} {
		if !short || s.name == "resty GET" {
			all = append(all, &client{name: s.name, reads: s.reads, worlds: 2, open: s.open})
		}
	}
	return all
}
