package fleet

import (
	"context"
	"log/slog"
	"time"

	"github.com/gabion-go/gabion/internal/fleet"
)

// Status is how a member stands with its fleet.
type Status struct {
	Fleet string
	ID    string

	// Renewed is when the store last answered a renewal. Zero means never.
	Renewed time.Time

	// Renewals and Failed count those that the store answered, and those that it did not.
	Renewals, Failed int64

	// Lost reports that the store did not answer the last renewal, since LostSince. Shares run to their end
	// then, and after it what policies declare is in force.
	Lost      bool
	LostSince time.Time

	// Err is what was wrong with the last renewal, nil if nothing was.
	Err error

	// Until is when the shares end, unless they are renewed. Zero means that there never were any.
	Until time.Time

	// Members is how many processes have shares, this one included, as was last heard.
	Members int

	Shares []Share

	// Overrides are those that are in force here.
	Overrides []Override

	// Unshared is how many limits are not shared because there are more than a fleet can share.
	Unshared int
}

// Share is how much of a limit a process may use.
type Share struct {
	Dependency string
	Limit      string  // rate, slots, budget, or a quota such as tokens/1m
	Amount     float64 // a second of a rate, a part of one of a budget, and else what the limit counts
	Of         float64 // the whole
	Wants      float64 // that the process could use
}

// Status returns how the member stands. It does not ask the store.
func (m *Member) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.status
	s.Shares = append([]Share(nil), s.Shares...)
	s.Overrides = append([]Override(nil), s.Overrides...)
	return s
}

// note changes the status, and returns what it was.
func (m *Member) note(change func(*Status)) (before Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.status
	change(&m.status)
	m.status.Members, m.status.Unshared = m.force.Pods, m.needs.left
	m.status.Until = time.Time{}
	if m.force.Until > 0 {
		m.status.Until = m.time(m.force.Until)
	}
	m.status.Shares = shares(m.needs.demands, m.amounts)
	m.status.Overrides = m.steers.following()
	return before
}

// shares puts together what is wanted and what was given.
func shares(demands []fleet.Demand, all amounts) []Share {
	list := make([]Share, len(demands))
	for i := range demands {
		d := &demands[i]
		dependency, limit := fleet.DependencyOf(d.Resource)
		list[i] = Share{Dependency: dependency, Limit: limit, Amount: all.of(d.Resource), Of: d.Total, Wants: d.Want}
	}
	return list
}

// answered notes a renewal that went well.
func (m *Member) answered() {
	before := m.note(func(s *Status) {
		s.Renewals++
		s.Renewed, s.Lost, s.LostSince, s.Err = time.Now(), false, time.Time{}, nil
	})
	if before.Lost {
		m.o.Logger.LogAttrs(context.Background(), slog.LevelInfo, "fleet: the store answers again",
			slog.String("fleet", m.o.Name), slog.Duration("after", time.Since(before.LostSince)))
	}
}

// missed notes one that did not. Only the first is logged.
func (m *Member) missed(err error) {
	before := m.note(func(s *Status) {
		s.Failed++
		if s.Err = err; !s.Lost {
			s.Lost, s.LostSince = true, time.Now()
		}
	})
	if !before.Lost {
		m.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "fleet: the store can't be reached; shares run to their end, then what policies declare is in force",
			slog.String("fleet", m.o.Name), slog.Any("error", err))
	}
}

// left notes that the process is no member any more.
func (m *Member) left(err error) {
	m.note(func(s *Status) { s.Err = err })
}

// unread says that the overrides can't be read. It is logged when the record is another than before.
func (m *Member) unread(err error) {
	m.mu.Lock()
	known := m.status.Err != nil && m.status.Err.Error() == err.Error()
	m.status.Err = err
	m.mu.Unlock()
	if !known {
		m.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "fleet: the overrides can't be read; those that are known run to their end",
			slog.String("fleet", m.o.Name), slog.Any("error", err))
	}
}
