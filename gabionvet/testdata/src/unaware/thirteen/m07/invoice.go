package m07

import (
	"context"
	"errors"
	"strconv"
	"time"
)

type ChargeRequest struct {
	Customer       string
	Cents          int64
	IdempotencyKey string
}

type Receipt struct{ ID string }

// Processor is the client of the payment processor.
type Processor interface {
	Charge(ctx context.Context, r ChargeRequest) (Receipt, error)
}

type Invoices struct {
	proc Processor
}

var ErrDeclined = errors.New("declined")

func (i *Invoices) Collect(ctx context.Context, customer string, invoice, cents int64) (Receipt, error) {
	delay := 300 * time.Millisecond
	for attempt := 0; ; attempt++ {
		r := ChargeRequest{
			Customer:       customer,
			Cents:          cents,
			IdempotencyKey: "inv-" + strconv.FormatInt(invoice, 10) + "-" + strconv.Itoa(attempt),
		}
		rec, err := i.proc.Charge(ctx, r)
		if err == nil || errors.Is(err, ErrDeclined) || attempt == 3 {
			return rec, err
		}
		t := time.NewTimer(delay)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return Receipt{}, ctx.Err()
		}
		delay *= 2
	}
}
