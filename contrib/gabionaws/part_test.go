package gabionaws_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// An operation within an attempt of the same dependency is part of that attempt.
func TestAnOperationWithinAnAttemptIsPartOfIt(t *testing.T) {
	for _, c := range []struct {
		fact     string
		plan     int
		attempts int
		why      policy.Reason
	}{
		{"one that succeeds", 200, 1, policy.None},
		{"one that is throttled is repeated by the attempt's call", 429, 3, policy.AttemptsExhausted},
		{"one that may have been done is not", 500, 1, policy.NotSafe},
	} {
		t.Run(c.fact, func(t *testing.T) {
			answer := fails(c.plan, "Unheard")
			if c.plan == 200 {
				answer = fine
			}
			s, p := serve(t, answer), quick()
			p.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off}
			d := gabion.New("table", p)
			client := dynamodb.NewFromConfig(s.config(d))
			err := d.Run(t.Context(), func(ctx context.Context) error {
				_, err := client.UpdateItem(ctx, update("ADD amount :a"))
				return err
			})
			if n := d.Stats().Totals; s.attempts() != c.attempts || gabion.ReasonOf(err) != c.why || n.Calls != 1 || n.Attempts != int64(c.attempts) {
				t.Errorf("%d were sent in %d calls of %d attempts: %v", s.attempts(), n.Calls, n.Attempts, err)
			}
			nothingHeld(t, d)
		})
	}
}
