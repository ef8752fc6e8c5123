package powerfs

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestSyncedBytesOutliveACut(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 0))
	var c content
	c.change(write{0, []byte("hello world")})
	c.change(write{at: 5})
	c.sync()
	if got := c.after(draw); string(got) != "hello" || string(c.live) != "hello" {
		t.Errorf("%q on the disk, %q for readers", got, c.live)
	}
}

// Unsynced writes are there in part: some sectors of some, now and then none or all.
func TestUnsyncedBytesMayBeThere(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 0))
	old, new := strings.Repeat("a", 3*sector), strings.Repeat("b", 3*sector)
	seen := map[string]int{}
	for range 200 {
		var c content
		c.change(write{0, []byte(old)})
		c.sync()
		c.change(write{0, []byte(new)})
		got := c.after(draw)
		if len(got) != len(old) || string(c.live) != new {
			t.Fatalf("%d bytes", len(got))
		}
		kinds := ""
		for piece := range 3 {
			part := got[piece*sector : (piece+1)*sector]
			if n := bytes.Count(part, []byte("b")); n != 0 && n != sector {
				t.Fatal("a sector is torn")
			}
			kinds += string(part[0])
		}
		seen[kinds]++
	}
	if len(seen) != 8 {
		t.Errorf("200 cuts left %v, want all 8 kinds", seen)
	}
}

func TestFailedSyncIsNotMadeUpFor(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 0))
	var c content
	c.change(write{0, []byte("ab")})
	c.sync()
	c.change(write{0, []byte("X")})
	c.forget()
	c.change(write{1, []byte("Y")})
	c.sync()
	if got := c.after(draw); string(got) != "aY" || string(c.live) != "XY" {
		t.Errorf("%q on the disk, %q for readers", got, c.live)
	}
}
