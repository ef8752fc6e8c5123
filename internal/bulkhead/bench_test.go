package bulkhead_test

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion/internal/bulkhead"
)

// Run with: go test -run='^$' -bench=. -count=10 ./internal/bulkhead

func BenchmarkFree(b *testing.B) {
	for _, fair := range []bool{false, true} {
		b.Run("fair="+strconv.FormatBool(fair), func(b *testing.B) {
			h := bulkhead.New(100, 100, fair)
			b.ReportAllocs()
			for b.Loop() {
				s, _ := h.TryAcquire("tenant", 0)
				h.Release(s, 0)
			}
		})
	}
}

func BenchmarkFreeParallel(b *testing.B) {
	for _, fair := range []bool{false, true} {
		b.Run("fair="+strconv.FormatBool(fair), func(b *testing.B) {
			h := bulkhead.New(100, 100, fair)
			b.ReportAllocs()
			parallel(b, h)
		})
	}
}

// Most or all of 64 slots are taken by others.
func BenchmarkNearlyFullParallel(b *testing.B) {
	for _, taken := range []int{60, 62, 63, 64} {
		b.Run(fmt.Sprintf("taken=%d", taken), func(b *testing.B) {
			h := bulkhead.New(64, 64, false)
			for range taken {
				h.TryAcquire("", 0)
			}
			parallel(b, h)
		})
	}
}

func parallel(b *testing.B, h *bulkhead.Bulkhead) {
	var workers atomic.Uint32
	b.RunParallel(func(pb *testing.PB) {
		shard := workers.Add(1)
		for pb.Next() {
			s, _ := h.TryAcquire("tenant", shard)
			h.Release(s, shard)
		}
	})
}

func BenchmarkRefused(b *testing.B) {
	h := bulkhead.New(0, 0, false)
	b.ReportAllocs()
	for b.Loop() {
		h.TryAcquire("", 0)
	}
}

// One joins, the holder releases, the joiner has the slot.
func BenchmarkHandOver(b *testing.B) {
	for _, fair := range []bool{false, true} {
		b.Run("fair="+strconv.FormatBool(fair), func(b *testing.B) {
			h := bulkhead.New(1, 10, fair)
			held, _ := h.TryAcquire("tenant", 0)
			bell := new(bell)
			b.ReportAllocs()
			for b.Loop() {
				w, _ := h.Join(bell, bulkhead.Normal, "tenant")
				h.Release(held, 0)
				held, _ = h.Granted(w)
			}
		})
	}
}

// The price of a free slot when many tenants wait for it.
func BenchmarkHandOverTenants(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			h := bulkhead.New(1, n+1, true)
			held, _ := h.TryAcquire("holder", 0)
			queue := make([]*bulkhead.Waiter, n)
			names := make([]string, n)
			for i := range queue {
				names[i] = strconv.Itoa(i)
				queue[i], _ = h.Join(nil, bulkhead.Normal, names[i])
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i = (i + 1) % n {
				h.Release(held, 0)
				held, _ = h.Granted(queue[i])
				queue[i], _ = h.Join(nil, bulkhead.Normal, names[i])
			}
		})
	}
}
