package budget

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/clock"
)

func BenchmarkDeposit(b *testing.B) {
	b.ReportAllocs()
	w := Make(10*time.Second, 1)
	for now := clock.Instant(0); b.Loop(); now += 100 {
		w.Deposit(now, 0)
	}
}

func BenchmarkDepositParallel(b *testing.B) {
	b.ReportAllocs()
	w := Make(10*time.Second, runtime.GOMAXPROCS(0))
	var shards atomic.Uint32
	b.RunParallel(func(pb *testing.PB) {
		shard := shards.Add(1)
		for now := clock.Instant(0); pb.Next(); now += 100 {
			w.Deposit(now, shard)
		}
	})
}

func BenchmarkTryWithdrawAndRefund(b *testing.B) {
	b.ReportAllocs()
	w := Make(10*time.Second, 1)
	r := NewRules(0.1, 1, 10*time.Second)
	for now := clock.Instant(0); b.Loop(); now += 100 {
		res, _ := w.TryWithdraw(now, r)
		w.Refund(now, res)
	}
}

func BenchmarkTryWithdrawRefused(b *testing.B) {
	b.ReportAllocs()
	w := Make(10*time.Second, 1)
	for now := clock.Instant(0); b.Loop(); now += 100 {
		w.TryWithdraw(now, Rules{})
	}
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
