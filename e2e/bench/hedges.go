package bench

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/gabion-go/gabion/policy"
)

func hedges() []*Contest {
	return []*Contest{
		{
			Name: "hedge", Title: "Hedge armed, primary wins, Done not asked for", Runs: 1, Headline: true, Floor: "timer-reset-stop",
			About: "One hedge after 1 s, never reached.", Entries: hedgeEntries(),
		},
		{
			Name: "hedge-done", Title: "Hedge armed, primary wins, Done asked for", Runs: 1, Listens: true, Floor: "timer-reset-stop",
			About: "The same with work that selects on Done.", Entries: hedgeEntries(),
		},
	}
}

func hedgeEntries() []Entry {
	p := nothing()
	p.Retry.Budget = policy.Budget{}
	p.Hedge = policy.Hedge{Max: 1, Delay: hedgeWait}
	return []Entry{
		doEntry("gabion", p, nil, "Do with all else off but the budget; the primary runs on the caller's goroutine"),
		{Name: "hand", Kind: Hand, Note: "goroutine, timer, select; cancels the loser", Start: hedgeHand},
		{Name: "failsafe-go", Note: "context passed on", Start: func(*Run) func(*Worker) func() bool {
			return executorContext(failsafe.With[int](hedgepolicy.NewWithDelay[int](hedgeWait)))
		}},
	}
}

type answer struct {
	v   int
	err error
}

func hedgeHand(*Run) func(*Worker) func() bool {
	return func(w *Worker) func() bool {
		parent := context.Background()
		return func() bool {
			ctx, cancel := context.WithCancel(parent)
			defer cancel()
			answers := make(chan answer, 2)
			send := func() {
				v, err := w.Work(ctx)
				answers <- answer{v, err}
			}
			go send()
			timer := time.NewTimer(hedgeWait)
			defer timer.Stop()
			for {
				select {
				case a := <-answers:
					return w.Right(a.v, a.err)
				case <-timer.C:
					go send()
				}
			}
		}
	}
}
