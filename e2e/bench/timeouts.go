package bench

import (
	"context"

	"github.com/eapache/go-resiliency/deadline"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/timeout"
)

func timeouts() []*Contest {
	return []*Contest{
		{
			Name: "timeout", Title: "Timeout, Done not asked for", Runs: 1, Floor: "context.WithTimeout",
			About: "The work sees a context with a deadline and finishes without ever waiting on it.", Entries: timeoutEntries(),
		},
		{
			Name: "timeout-done", Title: "Timeout, Done asked for", Runs: 1, Listens: true, Floor: "context.WithTimeout+Done",
			About: "The work selects on its context's Done, as everything that waits does.", Entries: timeoutEntries(),
		},
	}
}

func timeoutEntries() []Entry {
	p := nothing()
	p.Timeout.Call = limit
	return []Entry{
		doEntry("gabion", p, nil, "Do with all else off"),
		{Name: "hand", Kind: Hand, Note: "context.WithTimeout", Start: timeoutHand},
		{Name: "failsafe-go", Note: "context passed on, without a deadline", Start: func(*Run) func(*Worker) func() bool {
			return executorContext(failsafe.With[int](timeout.New[int](limit)))
		}},
		{Name: "eapache", Weaker: true, Note: "a goroutine for each call; no context: a channel says stop", Start: timeoutEapache},
	}
}

func timeoutHand(*Run) func(*Worker) func() bool {
	return func(w *Worker) func() bool {
		parent, work := context.Background(), w.Work
		return func() bool {
			ctx, cancel := context.WithTimeout(parent, limit)
			defer cancel()
			return w.Right(work(ctx))
		}
	}
}

func timeoutEapache(r *Run) func(*Worker) func() bool {
	d := deadline.New(limit)
	return func(w *Worker) func() bool {
		v, listens := 0, r.contest.Listens
		w.listens = false // there is no context to listen to, but a channel
		work := func(stop <-chan struct{}) (err error) {
			if listens {
				select {
				case <-stop:
					return errBlip
				default:
				}
			}
			v, err = w.Plain()
			return err
		}
		return func() bool {
			err := d.Run(work)
			return w.Right(v, err)
		}
	}
}
