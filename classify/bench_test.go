package classify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
)

func BenchmarkError(b *testing.B) {
	for name, err := range map[string]error{
		"nil":          nil,
		"late":         context.DeadlineExceeded,
		"transient":    Transient(errOdd),
		"wrapped":      fmt.Errorf("call: %w", Transient(fmt.Errorf("get: %w", errOdd))),
		"deadline":     &url.Error{Op: "Get", Err: context.DeadlineExceeded},
		"refused":      &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}},
		"marked":       Permanent(errOdd),
		"unclassified": errors.New("odd"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Error(err)
			}
		})
	}
}
