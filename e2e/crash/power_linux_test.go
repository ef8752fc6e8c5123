package crash

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/e2e/crash/powerfs"
)

// G: the machine loses its power at any moment, and with it what was written and
// not synced, in part. What was acknowledged is there afterwards, the store opens,
// and no lost claim lets an effect happen twice.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	if !powerfs.Isolated(t) {
		return
	}
	onDisks(t, func(l *load, _ *powerfs.Disk) {
		time.Sleep(20*time.Millisecond + l.draw(80*time.Millisecond))
	})
}

// F: a sync fails with EIO, and the disk does not get what it was to write, not by
// a later sync either. A store may go on or refuse everything; but what it
// acknowledges is there after the power cut that follows.
func TestFailedSyncs(t *testing.T) {
	t.Parallel()
	if !powerfs.Isolated(t) {
		return
	}
	var failed, later atomic.Int64 // syncs, and charges acknowledged afterwards
	onDisks(t, func(l *load, d *powerfs.Disk) {
		d.FailSync(1 + int(l.draw(30)))
		limit := l.now() + 2*time.Second
		for !d.Failed() && l.now() < limit {
			time.Sleep(time.Millisecond)
		}
		before := l.acknowledged()
		time.Sleep(20*time.Millisecond + l.draw(60*time.Millisecond))
		if d.Failed() {
			failed.Add(1)
			later.Add(int64(l.acknowledged() - before))
		}
	})
	if failed.Load() < int64(soak(20, 2000)) {
		t.Errorf("%d syncs failed: the rig has no teeth", failed.Load())
	}
	t.Logf("%d syncs failed, %d charges were acknowledged afterwards", failed.Load(), later.Load())
}

// onDisks lets embedded stores live on disks that lose their power. end begins when
// a server is up, and its return is the end of that life.
func onDisks(t *testing.T, end func(*load, *powerfs.Disk)) {
	t.Run("stores", func(t *testing.T) { // a group: it returns when its tests have
		for _, kind := range stores {
			if embeddedKills[kind.name] == 0 {
				continue
			}
			t.Run(kind.name, func(t *testing.T) {
				t.Parallel()
				l := &load{rig: newRig(t, kind, "", 100*time.Millisecond)}
				draw := rand.New(rand.NewPCG(l.seed, 1))
				lives, dir := soak(20, 2000), t.TempDir()
				var image powerfs.Image
				for range lives {
					image = l.liveOn(t, dir, image, draw, end)
				}
				// The last image is put into plain files: this process must not map files of
				// a disk that it serves.
				for name, content := range image {
					if err := os.WriteFile(filepath.Join(filepath.Dir(l.settings.Where), name), content, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				l.finish(t, lives, lives)
			})
		}
	})
}

// liveOn runs a server on a disk until its power is cut and returns what is left.
func (l *load) liveOn(t *testing.T, dir string, image powerfs.Image, draw *rand.Rand, end func(*load, *powerfs.Disk)) powerfs.Image {
	t.Helper()
	d, err := powerfs.Mount(dir, image)
	if err != nil {
		t.Fatal(err)
	}
	c := l.settings
	c.Where = filepath.Join(dir, filepath.Base(c.Where))
	p, err := launch(c)
	if err != nil {
		t.Errorf("it does not come back: %v", err)
	} else {
		l.run(p, func() { end(l, d) })
	}
	left := d.Cut(draw)
	if err := d.Unmount(); err != nil {
		t.Fatal(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	return left
}
