package proxycmd

import (
	"slices"
	"strings"
	"testing"
)

func TestOnlyWhatIsAsInTheFileIsLetGo(t *testing.T) {
	const smaps = `00400000-01b00000 r-xp 00000000 fe:00 12                                 /opt/my tools/gabion
Size:              23552 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
01b00000-032dd000 r--p 01700000 fe:00 12                                 /opt/my tools/gabion
Anonymous:             4 kB
032dd000-032de000 r--p 02edd000 fe:00 12                                 /opt/my tools/gabion
Anonymous:             0 kB
032de000-033e6000 rw-p 02ede000 fe:00 12                                 /opt/my tools/gabion
Anonymous:             0 kB
033e6000-0543f000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:00 13                         /lib/libc.so.6
Anonymous:             0 kB
7f0000001000-7f0000002000 r--p 00000000 00:00 0                          [vvar]
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x1b00000}, {0x32dd000, 0x32de000}}
	if got := unchanged(strings.NewReader(smaps), "/opt/my tools/gabion"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
