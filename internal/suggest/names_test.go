package suggest

import "testing"

func TestNamesAreMadeOnce(t *testing.T) {
	n := Names{}
	for _, c := range [][2]string{{"shop/stock", "shop.stock"}, {"shop/stock", "shop.stock-2"}, {"*", "all"}, {"--", "all-2"}} {
		if got := n.Make(c[0]); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
}
