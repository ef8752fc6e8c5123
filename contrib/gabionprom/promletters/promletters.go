// Package promletters lets package gabionprom ask stores of dead letters and outboxes.
//
//	metrics := gabionprom.New(gabionprom.Config{
//		Letters:  promletters.Letters(store),
//		Outboxes: map[string]gabionprom.Outbox{"orders": promletters.Outbox(box)},
//	})
package promletters

import (
	"context"

	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/outbox"
)

// Letters returns a store as package gabionprom asks it. It is safe for concurrent use.
func Letters(s deadletter.Store) gabionprom.Letters { return letters{s} }

type letters struct{ store deadletter.Store }

// Groups asks for the groups' figures one after the other.
func (l letters) Groups(ctx context.Context, most int) (groups []gabionprom.LetterGroup, err error) {
	names, err := l.store.Groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names[:min(len(names), most)] {
		s, err := l.store.Stats(ctx, name)
		if err != nil {
			return nil, err
		}
		drives, err := l.store.Drives(ctx, name)
		if err != nil {
			return nil, err
		}
		g := gabionprom.LetterGroup{
			Name: name, Waiting: s.ByState[deadletter.Waiting], Taken: s.ByState[deadletter.Taken],
			Unresolved: s.Unresolved, Oldest: s.Oldest, Bytes: s.Bytes, Put: s.Put,
		}
		for i := range drives {
			g.Driving, g.Stopped = drives[i].State == deadletter.Driving, drives[i].State == deadletter.StoppedByItself
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// Outbox returns an outbox as package gabionprom asks it. It is safe for concurrent use.
func Outbox(o *outbox.Outbox) gabionprom.Outbox { return box{o} }

type box struct {
	of interface {
		Stats(ctx context.Context) (outbox.Stats, error)
	}
}

func (b box) Backlog(ctx context.Context) (gabionprom.Backlog, error) {
	s, err := b.of.Stats(ctx)
	return gabionprom.Backlog{Waiting: s.Waiting, Resting: s.Resting, Parked: s.Parked, Oldest: s.Oldest}, err
}
