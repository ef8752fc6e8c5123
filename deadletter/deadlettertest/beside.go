package deadlettertest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gabion-go/gabion/deadletter"
)

// These are redrives beside others, and large ones beside all that goes on meanwhile.

func twoGroups(b *bench) {
	g, h := b.put("g", 2), b.put("h", 2)
	b.order("g", 1)
	b.order("h", 1000)
	b.pass(time.Second)
	taken, _ := b.take("h", 5)
	b.wantTaken(taken, h...)
	taken, _ = b.take("g", 5)
	b.wantTaken(taken, g...)
}

func twoDrives(b *bench) {
	ids := b.put("g", 4, func(n int, l *deadletter.Letter) { l.Order = []string{"a", "", "a", ""}[n] })
	one := func(id deadletter.ID) {
		_, err := b.Order(b.Context(), deadletter.Query{Group: "g", IDs: []deadletter.ID{id}}, deadletter.Drive{Rate: 1})
		b.ok(err)
		b.pass(time.Second)
	}
	one(ids[2])
	one(ids[0])
	one(ids[3])
	taken, _ := b.take("g", 10)
	if len(taken) != 2 {
		b.Errorf("took %v", taken)
	}
	for _, l := range taken {
		if l.ID == ids[2] {
			b.Error("the younger of one order was taken first")
		}
	}
	b.wantState(ids[1], deadletter.Waiting)
}

func orderedOnce(b *bench) {
	const n = 1100 // several transactions' parts
	b.at(8, func(w int, s deadletter.Store) {
		for i := w; i < n; i += 8 * len(b.both()) {
			if err := s.Put(b.Context(), letter("g", i)); err != nil {
				b.Error(err)
			}
		}
	})
	b.pass(time.Second)
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { // half of them fail, so that the redrive goes on
		for i := 0; ; {
			b.pass(time.Millisecond)
			taken, _, err := b.Take(b.Context(), "g", 20, time.Hour)
			for _, l := range taken {
				v := done
				if i++; i%2 == 0 {
					v = failed("still down")
				}
				err = errors.Join(err, b.Settle(b.Context(), l, v))
			}
			late := letter("g", n+i)
			if err = errors.Join(err, b.Put(b.Context(), late)); err != nil {
				b.Error(err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	d := b.order("g", 1e9)
	close(stop)
	all.Wait()
	if d.Total < n || d.Total > n+n/4 { // what came before it began
		b.Errorf("%d letters were ordered of %d", d.Total, n)
	}
	for from, first := "", true; first || from != ""; first = false {
		p, err := b.List(b.Context(), deadletter.Query{Group: "g", States: []deadletter.State{deadletter.Ordered, deadletter.Taken}}, from, 1000)
		b.ok(err)
		for _, l := range p.Letters {
			if l.Redriven > 0 {
				b.Fatalf("%s failed, and was ordered once more", l.ID)
			}
		}
		from = p.Next
	}
}

func large(b *bench) {
	const n = 520 // more than one transaction's part
	b.at(8, func(w int, s deadletter.Store) {
		for i := w; i < n; i += 8 * len(b.both()) {
			l := letter("g", i)
			l.Order = fmt.Sprint(i % 2)
			if err := s.Put(b.Context(), l); err != nil {
				b.Error(err)
			}
		}
	})
	d := b.order("g", 1e9)
	if d.Total != n || d.Left != n || d.State != deadletter.Driving {
		b.Errorf("%+v", d)
	}
	b.pass(time.Second)
	taken, _ := b.take("g", 10)
	if len(taken) != 2 {
		b.Errorf("%d of two orders", len(taken))
	}
	b.ok(b.Stop(b.Context(), d.ID, "", ""))
	if s := b.stats("g"); s.ByState[deadletter.Waiting] != n-2 || s.ByState[deadletter.Taken] != 2 {
		b.Errorf("%+v", s)
	}
}
