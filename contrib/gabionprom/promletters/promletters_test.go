package promletters

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/outbox"
)

var errDown = errors.New("down")

// A shelf is a store as far as metrics ask it.
type shelf struct {
	deadletter.Store
	drives []deadletter.Drive
	fails  string // the question that it does not answer
}

func (s shelf) says(question string) error {
	if s.fails == question {
		return errDown
	}
	return nil
}

func (s shelf) Groups(context.Context) ([]string, error) {
	return []string{"a", "b", "c"}, s.says("groups")
}

func (s shelf) Stats(_ context.Context, group string) (deadletter.Stats, error) {
	return deadletter.Stats{
		Letters: 7, ByState: map[deadletter.State]int{deadletter.Waiting: 6, deadletter.Taken: 1, deadletter.Done: 9},
		Unresolved: 3, Oldest: time.Unix(1, 0), Bytes: 1234, Put: int64(group[0]),
	}, s.says("stats")
}

func (s shelf) Drives(context.Context, string) ([]deadletter.Drive, error) {
	return s.drives, s.says("drives")
}

// A redrive that stopped by itself counts until the next of its group is ordered.
func TestAGroupsFiguresAreThoseOfTheStore(t *testing.T) {
	for _, c := range []struct {
		fact             string
		all              []deadletter.Drive
		driving, stopped bool
	}{
		{"there was no redrive", nil, false, false},
		{"it runs", []deadletter.Drive{{State: deadletter.Driving}}, true, false},
		{"it stopped by itself", []deadletter.Drive{{State: deadletter.StoppedByItself}}, false, true},
		{"it finished", []deadletter.Drive{{State: deadletter.Finished}}, false, false},
		{"it was stopped by hand", []deadletter.Drive{{State: deadletter.Stopped}}, false, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			all, err := Letters(shelf{drives: c.all}).Groups(t.Context(), 2)
			if err != nil || len(all) != 2 {
				t.Fatalf("%d groups, %v; want two", len(all), err)
			}
			want := gabionprom.LetterGroup{
				Name: "b", Waiting: 6, Taken: 1, Unresolved: 3, Oldest: time.Unix(1, 0), Bytes: 1234, Put: 'b', Driving: c.driving, Stopped: c.stopped,
			}
			if all[1] != want {
				t.Errorf("%+v, want %+v", all[1], want)
			}
		})
	}
}

func TestAStoreThatFailsHasNoFigures(t *testing.T) {
	for _, question := range []string{"groups", "stats", "drives"} {
		if all, err := Letters(shelf{fails: question}).Groups(t.Context(), 9); !errors.Is(err, errDown) || all != nil {
			t.Errorf("%s: %v, %v", question, all, err)
		}
	}
}

type counted outbox.Stats

func (c counted) Stats(context.Context) (outbox.Stats, error) { return outbox.Stats(c), errDown }

func TestABacklogIsThatOfTheOutbox(t *testing.T) {
	got, err := box{counted{Waiting: 5, Resting: 2, Parked: 3, Oldest: time.Hour, Leader: "x"}}.Backlog(t.Context())
	if want := (gabionprom.Backlog{Waiting: 5, Resting: 2, Parked: 3, Oldest: time.Hour}); got != want || !errors.Is(err, errDown) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}
