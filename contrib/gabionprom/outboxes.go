package gabionprom

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/outbox"
)

// An Outbox is what is asked of an [outbox.Outbox].
type Outbox interface {
	Stats(context.Context) (outbox.Stats, error)
}

// outboxes makes what asks outboxes.
func outboxes(all map[string]Outbox) map[string]*asked[*outbox.Stats] {
	some := make(map[string]*asked[*outbox.Stats], len(all))
	for name, box := range all {
		some[name] = &asked[*outbox.Stats]{every: outboxEvery, read: func(ctx context.Context) (*outbox.Stats, error) {
			s, err := box.Stats(ctx)
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
