package deadletter_test

import (
	"testing"

	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/deadletter/deadlettertest"
)

func TestMemory(t *testing.T) {
	deadlettertest.Run(t, func(t testing.TB, o deadletter.Options) (deadletter.Store, func(testing.TB) deadletter.Store) {
		m, err := deadletter.NewMemory(o)
		if err != nil {
			t.Fatal(err)
		}
		return m, nil
	})
}
