package machine

import (
	"cmp"
	"slices"
	"sync"

	"github.com/gabion-go/gabion/policy"
)

// maxSpends is how many units are counted of a dependency. What an adapter reads are a handful.
const maxSpends = 16

// spends count what answers said that they cost.
type spends struct {
	mu  sync.Mutex
	all []policy.Spend // by unit, in the order of their names
}

// Spent counts what an answer used, and what that costs at the prices in force. It returns all that
// it counted.
func (s *State) Spent(used []policy.Spend) []policy.Spend {
	cost := policy.Cost(s.rules.Load().Policy.Prices, used)
	s.extend(func(next *parts) {
		if next.spends == nil {
			next.spends = new(spends)
		}
	})
	s.part().spends.add(cost)
	return cost
}

func (c *spends) add(cost []policy.Spend) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range cost {
		i, found := slices.BinarySearchFunc(c.all, one.Unit, func(have policy.Spend, unit string) int { return cmp.Compare(have.Unit, unit) })
		switch {
		case found:
			c.all[i].Amount += one.Amount
			c.all[i].Answers += one.Answers
		case len(c.all) < maxSpends:
			c.all = slices.Insert(c.all, i, one)
		}
	}
}

// spent returns a copy, nil where nothing was counted.
func (p *parts) spent() []policy.Spend {
	if p == nil || p.spends == nil {
		return nil
	}
	p.spends.mu.Lock()
	defer p.spends.mu.Unlock()
	return slices.Clone(p.spends.all)
}
