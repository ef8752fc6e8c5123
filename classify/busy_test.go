package classify

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// A database that has no room for another connection teaches a learned limit, wherever in
// the error that is said.
func TestNoRoomForAConnectionIsBusyInAnyOrder(t *testing.T) {
	full := pgError("53300")
	for _, err := range []error{
		full,
		fmt.Errorf("connect: %w", full),
		errors.Join(full, syscall.ECONNREFUSED),
		errors.Join(syscall.ECONNREFUSED, full),
	} {
		if o := Error(err); !o.Busy {
			t.Errorf("%v means %+v", err, o)
		}
	}
	if o := Error(pgError("57P03")); o.Busy {
		t.Errorf("a server that starts up means %+v", o)
	}
}
