package gabiongrpc_test

import (
	"context"
	"testing"
	"testing/synctest"

	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
)

// Addresses come and go, so that what was known of one that has gone is not kept.
func TestWhatIsKnownOfAnAddressEndsWithIt(t *testing.T) {
	inFleet(t, 3, plain(), func(f *fleet) {
		fine := func(context.Context) error { return nil }
		calls := func() {
			for range 30 {
				_, _ = f.stub.UnaryCall(f.Context(), &pb.SimpleRequest{}, safely())
			}
		}
		f.serves(failing, fine)
		calls()
		if came := f.came(); came[0] != 8 {
			t.Fatalf("%v", came)
		}
		f.serves(fine)
		for _, addrs := range [][]resolver.Address{f.addrs[1:], f.addrs} {
			f.names.UpdateState(resolver.State{Addresses: addrs})
			synctest.Wait()
		}
		calls()
		if came := f.came(); came[0] != 18 {
			t.Errorf("it is left out, although it is new: %v", came)
		}
	})
}
