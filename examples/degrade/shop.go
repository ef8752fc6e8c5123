package main

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

//go:embed gabion.yaml
var policies []byte

// A source is something that the shop asks: the warehouse, or a service for tips.
type source func(context.Context) (string, error)

const bestSold = "best sold: bulbs"

// A shop shows the page of an item. Without stock it shows no page; without tips it shows what
// sells best.
type shop struct {
	stock, tips       *gabion.Dependency
	askStock, askTips source
}

// open makes a shop of the file's policies.
func open(askStock, askTips source, opts ...gabion.Option) (*shop, error) {
	file, err := config.Parse("gabion.yaml", policies)
	if err != nil {
		return nil, err
	}
	deps, err := gabion.NewRegistry(file.Policies, opts...)
	if err != nil {
		return nil, err
	}
	s := &shop{askStock: askStock, askTips: askTips}
	if s.stock, err = deps.Get("stock"); err != nil {
		return nil, err
	}
	s.tips, err = deps.Get("tips")
	return s, err
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	// What the page is about. The queue's order is that of the request.
	item, err := gabion.Do(ctx, s.stock, s.askStock,
		gabion.WithPriority(gabion.PriorityOf(ctx)), gabion.WithTenant(customer(r)))
	if err != nil {
		gabionhttp.Error(w, err)
		return
	}
	// What it can do without. One call in a hundred takes the substitute on good days, too.
	tips, err := gabion.DoOr(ctx, s.tips, s.askTips, gabion.Fallback[string]{
		On:     gabion.Unavailable(),
		Answer: func(context.Context, error) (string, error) { return bestSold, nil },
		Share:  0.01,
	})
	if err != nil {
		tips = bestSold // no answer came: a Fallback leaves that to you, and this was only read
	}
	fmt.Fprintf(w, "%s; %s\n", item, tips)
}

// front lets in what the shop can do. An order comes before a look at a page, and that
// before an export. No customer has more than half of the room.
func front(next http.Handler, limit int) *gabionhttp.Admission {
	return &gabionhttp.Admission{
		Next:        next,
		Limit:       limit,
		Tenant:      customer,
		TenantShare: 0.5,
		Priority: func(r *http.Request) policy.Priority {
			switch r.URL.Path {
			case "/order":
				return policy.PriorityHigh
			case "/export":
				return policy.PriorityLow
			}
			return policy.PriorityNormal
		},
	}
}

// customer is who was authenticated; here, a header says it.
func customer(r *http.Request) string { return r.Header.Get("Customer") }
