package gabionproxy

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
)

func TestWhatKeptARequestFromItsServer(t *testing.T) {
	for fact, c := range map[string]struct {
		err  error
		want string // a part; empty means nothing
	}{
		"nothing listens":              {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "connection refused"},
		"there is no such name":        {fmt.Errorf("dial: %w", &net.DNSError{IsNotFound: true}), "name of the server was not found"},
		"the name server has troubles": {&net.DNSError{IsTemporary: true}, ""},
		"anything else":                {errors.New("reset"), ""},
	} {
		if got := unreached(c.err); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", fact, got)
		}
	}
}
