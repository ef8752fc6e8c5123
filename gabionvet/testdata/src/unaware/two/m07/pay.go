package m07

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
)

type CreatePaymentRequest struct{ Order string }
type Payment struct{ ID string }

type PaymentsClient interface {
	CreatePayment(ctx context.Context, in *CreatePaymentRequest, opts ...grpc.CallOption) (*Payment, error)
}

type Service struct{ payments PaymentsClient }

func (s *Service) Pay(ctx context.Context, order string) (*Payment, error) {
	var err error
	for attempt := 1; attempt <= 3; attempt++ {
		cctx, cancel := context.WithTimeout(ctx, time.Second)
		var p *Payment
		p, err = s.payments.CreatePayment(cctx, &CreatePaymentRequest{Order: order})
		cancel()
		if err == nil {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(time.Duration(attempt) * 100 * time.Millisecond)):
		}
	}
	return nil, err
}
