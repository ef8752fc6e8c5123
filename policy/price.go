package policy

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Price is what some units of a dependency's work cost in money. Files write it
// as "3 usd/1M input": 3 usd for a million tokens of input. The zero Price is invalid, and
// [Policy.Validate] refuses it.
type Price struct {
	Amount float64 // of money, zero or more
	Money  string  // "usd", "eur": a lower-case name
	Per    float64 // units that it buys, more than zero
	Unit   string  // "requests", "input", "cached", "output", "tokens"
}

// Spend is what was used of one unit, or spent of a money: see [Stats.Spent].
type Spend struct {
	Unit    string
	Amount  float64 // since the dependency was made
	Answers int64   // that said so
}

const (
	maxPrices = 16 // of a policy: four units and some moneys
	maxSpend  = 1e12
)

// multiples are what a file may write after a number of units.
var multiples = []struct {
	suffix string
	of     float64
}{{"M", 1e6}, {"K", 1e3}, {"k", 1e3}}

// String returns the price as files write it.
func (p Price) String() string {
	per := strconv.FormatFloat(p.Per, 'f', -1, 64)
	for _, m := range multiples[:2] {
		if n := p.Per / m.of; n >= 1 && n == math.Trunc(n) {
			per = strconv.FormatFloat(n, 'f', -1, 64) + m.suffix
			break
		}
	}
	return strconv.FormatFloat(p.Amount, 'f', -1, 64) + " " + p.Money + "/" + per + " " + p.Unit
}

// MarshalText returns the price as files write it.
func (p Price) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

const priceProposal = "write one such as 3 usd/1M input, or 0.01 usd/1 requests"

// UnmarshalText reads a price such as "3 usd/1M input". On an error p stays as it was.
func (p *Price) UnmarshalText(text []byte) error {
	s := string(text)
	wrong := func(problem string) error { return textError(s, problem, priceProposal) }
	money, units, found := strings.Cut(s, "/")
	if len(s) > maxQuotaText || !found {
		return wrong("is no price")
	}
	amount, name, named := strings.Cut(strings.TrimSpace(money), " ")
	per, unit, counted := strings.Cut(strings.TrimSpace(units), " ")
	if !named || !counted {
		return wrong("is no price")
	}
	next := Price{Money: strings.TrimSpace(name), Unit: strings.TrimSpace(unit)}
	times := 1.0
	for _, m := range multiples {
		if cut, ok := strings.CutSuffix(per, m.suffix); ok {
			per, times = cut, m.of
			break
		}
	}
	var ok bool
	if next.Amount, ok = plainNumber(amount); !ok {
		return wrong("has no amount of money")
	}
	if next.Per, ok = plainNumber(per); !ok {
		return wrong("has no number of units")
	}
	next.Per *= times
	if problem := next.problem(); problem != "" {
		return wrong(problem)
	}
	*p = next
	return nil
}

// plainNumber reads digits with at most one point.
func plainNumber(s string) (float64, bool) {
	if s == "" || len(s) > maxNumberText || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}

// problem says what is wrong with p, or nothing.
func (p Price) problem() string {
	switch {
	case !quotaUnit.MatchString(p.Money):
		return "names no money"
	case !quotaUnit.MatchString(p.Unit):
		return "names no unit"
	case p.Money == p.Unit:
		return "sells " + p.Unit + " for itself"
	case math.IsNaN(p.Amount) || p.Amount < 0 || p.Amount > maxSpend:
		return "has an amount of money that can't be meant"
	case math.IsNaN(p.Per) || p.Per <= 0 || p.Per > maxSpend:
		return "has a number of units that can't be meant"
	}
	return ""
}

func checkPrices(c *check, prices []Price) {
	if len(prices) > maxPrices {
		c.add("prices", "", strconv.Itoa(len(prices)), "are more prices than a policy can have", "write at most "+strconv.Itoa(maxPrices))
		return
	}
	for i, p := range prices {
		if problem := p.problem(); problem != "" {
			addItem(c, "prices", i, p.String(), problem, priceProposal)
			continue
		}
		if slices.ContainsFunc(prices[:i], func(q Price) bool { return q.Unit == p.Unit && q.Money == p.Money }) {
			addItem(c, "prices", i, p.String(), "is a second price of "+p.Unit+" in "+p.Money, "write one of them")
		}
	}
}

// Cost adds to used what it costs at these prices, and returns all of it in the order of their names. What is
// cached costs as input does where it has no price of its own. Amounts that can't be meant are left out.
func Cost(prices []Price, used []Spend) []Spend {
	all := make([]Spend, 0, len(used)+2)
	add := func(s Spend) {
		if math.IsNaN(s.Amount) || s.Amount < 0 || s.Amount > maxSpend {
			return
		}
		if i := slices.IndexFunc(all, func(have Spend) bool { return have.Unit == s.Unit }); i >= 0 {
			all[i].Amount += s.Amount
			return
		}
		all = append(all, s)
	}
	for _, s := range used {
		add(s)
	}
	for _, s := range slices.Clone(all) {
		for _, p := range prices {
			if p.Unit == s.Unit || s.Unit == "cached" && p.Unit == "input" && !priced(prices, "cached", p.Money) {
				add(Spend{Unit: p.Money, Amount: s.Amount / p.Per * p.Amount, Answers: s.Answers})
			}
		}
	}
	slices.SortFunc(all, func(a, b Spend) int { return cmp.Compare(a.Unit, b.Unit) })
	return all
}

func priced(prices []Price, unit, money string) bool {
	return slices.ContainsFunc(prices, func(p Price) bool { return p.Unit == unit && p.Money == money })
}
