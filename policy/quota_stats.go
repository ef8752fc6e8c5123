package policy

import "slices"

// Name is the unit and the span, such as "tokens/1m".
func (q *QuotaStats) Name() string { return q.Unit + "/" + FormatDuration(q.Span) }

// Quotas returns each quota once. Where calls name partitions, or endpoints have their own, it is that of the
// partition in which the smallest share is left, with the calls of all partitions that wait.
func (s *Stats) Quotas() []QuotaStats {
	var all []QuotaStats
	add := func(p *PartitionStats) {
		for i := range p.Quotas {
			q := p.Quotas[i]
			i := slices.IndexFunc(all, func(one QuotaStats) bool { return one.Unit == q.Unit && one.Span == q.Span })
			if i < 0 {
				all = append(all, q)
				continue
			}
			waiting := all[i].Waiting + q.Waiting
			if q.Left*all[i].Amount < all[i].Left*q.Amount {
				all[i] = q
			}
			all[i].Waiting = waiting
		}
	}
	for i := range s.Partitions {
		add(&s.Partitions[i])
	}
	add(&s.Main)
	return all
}
