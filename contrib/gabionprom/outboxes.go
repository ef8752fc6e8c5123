package gabionprom

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
)

// An Outbox is an outbox, as scrapes ask it.
type Outbox interface {
	Backlog(ctx context.Context) (Backlog, error)
}

// A Backlog is what an outbox has yet to deliver.
type Backlog struct {
	Waiting int           // messages to be published, those behind a parked one included
	Resting int           // messages that failed and are tried again later
	Parked  int           // messages that were given up
	Oldest  time.Duration // how long the oldest of Waiting has waited; zero if Waiting is
}

// outboxes makes what asks outboxes.
func outboxes(all map[string]Outbox) map[string]*asked[*Backlog] {
	some := make(map[string]*asked[*Backlog], len(all))
	for name, box := range all {
		some[name] = &asked[*Backlog]{every: outboxEvery, read: func(ctx context.Context) (*Backlog, error) {
			s, err := box.Backlog(ctx)
			return &s, err
		}}
	}
	return some
}

// collectOutboxes sends what outboxes said. All are asked at once.
func (m *Metrics) collectOutboxes(s *scrape) {
	until := time.Now().Add(askedWait)
	for _, o := range m.outboxes {
		o.begin()
	}
	for _, name := range slices.Sorted(maps.Keys(m.outboxes)) {
		label := pair("outbox", name)
		said, up := m.outboxes[name].now(until)
		s.level(catalog.OutboxUp, oneIf(up), label)
		if said == nil {
			continue
		}
		s.level(catalog.OutboxMessages, float64(said.Waiting), label, pair("state", "waiting"))
		s.level(catalog.OutboxMessages, float64(said.Resting), label, pair("state", "resting"))
		s.level(catalog.OutboxMessages, float64(said.Parked), label, pair("state", "parked"))
		s.level(catalog.OutboxAge, said.Oldest.Seconds(), label)
	}
}
