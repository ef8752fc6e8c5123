package demo

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
)

// The load is chosen so that two cores are idle most of the time: what goes wrong is the
// plan's doing and the clients', not the machine's.
const (
	load    = 40              // calls per second and client
	inTime  = 2 * time.Second // a call counts as answered in time when it is done by then
	maxOpen = 4000            // calls of one client open at once; a bound for long runs only
)

// The purposes of the demo's draws, away from gabion's own.
const (
	drawArrival chance.Purpose = 100 + iota
	drawAmount
)

// Order is one call's intent: charge this order, once.
type Order struct {
	Number int           // from 0, in order of arrival
	Amount int           // in cents
	At     time.Duration // when it arrives, from the start of the run
}

// ID is the name that the shop and the ledger know the order by.
func (o Order) ID() string { return orderID(o.Number) }

func orderID(number int) string { return fmt.Sprintf("order-%06d", number) }

// Orders lays out a run's arrivals. The load is open: calls arrive whether or not
// earlier ones are done. Each has a slot of 1/load and a moment drawn inside it,
// so that seconds are comparable and arrivals still bunch.
func Orders(seed uint64, busy time.Duration) []Order {
	const slot = time.Second / load
	orders := make([]Order, int(busy/slot))
	for i := range orders {
		n := uint64(i)
		orders[i] = Order{
			Number: i,
			Amount: 100 + int(chance.U(seed, n, 0, drawAmount)*9900),
			At:     time.Duration(i)*slot + time.Duration(chance.U(seed, n, 0, drawArrival)*float64(slot)),
		}
	}
	return orders
}
