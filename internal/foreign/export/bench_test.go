package export

import (
	"fmt"
	"testing"

	"github.com/gabion-go/gabion/policy"
)

// BenchmarkThousandDependencies writes 1,000 policies as files of each format.
func BenchmarkThousandDependencies(b *testing.B) {
	for _, f := range Formats() {
		b.Run(f.Name, func(b *testing.B) {
			for b.Loop() {
				for i := range 1000 {
					e := f.Write(Dependency{Name: fmt.Sprintf("stock-%d", i), Host: "stock.shop.svc.cluster.local", Policy: policy.Policy{Safe: i%2 == 0}})
					if e.Text == "" {
						b.Fatal(f.Name)
					}
				}
			}
		})
	}
}
