package budget

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func BenchmarkDeposit(b *testing.B) {
	b.ReportAllocs()
	w := MakeWindow(10*time.Second, 1)
	for now := clock.Instant(0); b.Loop(); now += 100 {
		w.Deposit(now, 0)
	}
}

func BenchmarkDepositParallel(b *testing.B) {
	b.ReportAllocs()
	w := MakeWindow(10*time.Second, runtime.GOMAXPROCS(0))
	var shards atomic.Uint32
	b.RunParallel(func(pb *testing.PB) {
		shard := shards.Add(1)
		for now := clock.Instant(0); pb.Next(); now += 100 {
			w.Deposit(now, shard)
		}
	})
}

// What a call that fails twice asks of its budget, 10 000 calls in the window.
func BenchmarkTwoFailures(b *testing.B) {
	for _, shards := range []int{1, 2, 8, 32} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			w := MakeWindow(10*time.Second, shards)
			r := NewRules(10, 100, 10*time.Second)
			for now := clock.Instant(0); b.Loop(); now += ms {
				twoFailures(&w, now, r, 0)
			}
		})
	}
}

// Time goes on so slowly that no goroutine falls back by a slice.
func BenchmarkTwoFailuresParallel(b *testing.B) {
	b.ReportAllocs()
	w := MakeWindow(10*time.Second, runtime.GOMAXPROCS(0))
	r := NewRules(10, 100, 10*time.Second)
	var shards atomic.Uint32
	b.RunParallel(func(pb *testing.PB) {
		shard := shards.Add(1)
		for now := clock.Instant(0); pb.Next(); now += 100 {
			twoFailures(&w, now, r, shard)
		}
	})
}

func twoFailures(w *Window, now clock.Instant, r Rules, shard uint32) {
	w.Deposit(now, shard)
	w.TryWithdraw(now, r)
	w.TryWithdraw(now, r)
}

func BenchmarkTryWithdrawAndRefund(b *testing.B) {
	b.ReportAllocs()
	w := MakeWindow(10*time.Second, 1)
	r := NewRules(0.1, 1, 10*time.Second)
	for now := clock.Instant(0); b.Loop(); now += 100 {
		res, _ := w.TryWithdraw(now, r)
		w.Refund(now, res)
	}
}

func BenchmarkTryWithdrawRefused(b *testing.B) {
	b.ReportAllocs()
	w := MakeWindow(10*time.Second, 1)
	for now := clock.Instant(0); b.Loop(); now += 100 {
		w.TryWithdraw(now, Rules{})
	}
}

// An outage: every call asks, and none is granted a re-send.
func BenchmarkTryWithdrawRefusedParallel(b *testing.B) {
	b.ReportAllocs()
	w := MakeWindow(10*time.Second, 2*runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		for now := clock.Instant(0); pb.Next(); now += 100 {
			w.TryWithdraw(now, Rules{})
		}
	})
}

func BenchmarkBucket(b *testing.B) {
	b.ReportAllocs()
	var bucket Bucket
	r := NewBucketRules(100, 1, 1)
	for b.Loop() {
		bucket.TryWithdraw(r)
		bucket.Refill(r)
	}
}
