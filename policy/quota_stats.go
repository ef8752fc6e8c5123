package policy

// Name is the unit and the span, such as "tokens/1m".
func (q *QuotaStats) Name() string { return q.Unit + "/" + FormatDuration(q.Span) }

// Quotas returns each quota once. Where calls name partitions, which have their own, it is that of the
// partition in which the smallest share is left, with the calls of all partitions that wait.
func (s *Stats) Quotas() []QuotaStats {
	var all []QuotaStats
	add := func(p *PartitionStats) {
		for i := range p.Quotas {
			q := p.Quotas[i]
			if i >= len(all) {
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
